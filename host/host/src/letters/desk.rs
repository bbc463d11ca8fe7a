//! The dead-letter queues of a host, and what is under way there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::decision::Bounds;
use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_dead_letters::redrive::{RedriveError, Runs};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DeskError;
use super::sample::LetterSample;
use super::state::{Listed, Running, Summaries, Surveyed, Surveying};
use crate::policy::LivePolicy;
use crate::queue::{Connections, Queue};

/// How long surveys and runs may take to end.
const ENDS: Duration = Duration::from_secs(20);

/// Where runs are kept.
#[async_trait]
pub trait RunsPlace: std::fmt::Debug + Send + Sync {
    /// The runs there: one, or all.
    async fn runs(&self, run: Option<&str>) -> Result<Runs, RedriveError>;

    /// The newest runs there. In a folder, all are listed.
    async fn newest(&self, most: usize) -> Result<Runs, RedriveError>;

    /// What to call the place.
    fn name(&self) -> String;
}

/// A queue whose dead letters operators see.
#[derive(Debug)]
pub struct DeskQueue {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// Its ARN, or `local:NAME`.
    pub(crate) arn: String,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) dead_letters: Vec<Arc<dyn Queue>>,
    pub(crate) policy: Arc<LivePolicy>,
    pub(crate) bounds: Bounds,
}

/// What a host does about its dead letters.
#[derive(Debug)]
pub struct Desk {
    queues: Vec<DeskQueue>,
    pub(super) connections: Arc<Connections>,
    place: OnceLock<Arc<dyn RunsPlace>>,
    /// By the name of the queue.
    pub(super) surveys: Mutex<HashMap<String, Surveyed>>,
    /// The runs that this host carries out.
    pub(super) running: Mutex<HashMap<String, Running>>,
    /// What has letters of a dead-letter queue, by its URL: one thing at a time.
    busy: Arc<Mutex<HashMap<String, String>>>,
    /// When a run of this host has moved letters of a dead-letter queue, by its URL.
    pub(super) moved: Mutex<HashMap<String, Timestamp>>,
    pub(super) summaries: Summaries,
    pub(super) listed: tokio::sync::Mutex<Option<Listed>>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// Keeps others from the letters of these dead-letter queues until it is dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    busy: Arc<Mutex<HashMap<String, String>>>,
    urls: Vec<String>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut busy = lock(&self.busy);
        for url in &self.urls {
            busy.remove(url);
        }
    }
}

impl Desk {
    /// The desk of these queues.
    pub(crate) fn new(queues: Vec<DeskQueue>, connections: Arc<Connections>) -> Self {
        Self {
            queues,
            connections,
            place: OnceLock::new(),
            surveys: Mutex::default(),
            running: Mutex::default(),
            busy: Arc::default(),
            moved: Mutex::default(),
            listed: tokio::sync::Mutex::default(),
            summaries: Summaries::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Keeps runs there. Without a place, there are none.
    pub fn keep_runs(&self, place: Arc<dyn RunsPlace>) {
        let _ = self.place.set(place);
    }

    pub(super) fn place(&self) -> Result<&Arc<dyn RunsPlace>, DeskError> {
        self.place.get().ok_or_else(|| {
            DeskError::Refused("this host has no place for the files of runs".to_owned())
        })
    }

    /// The queues.
    pub(crate) fn queues(&self) -> &[DeskQueue] {
        &self.queues
    }

    /// The queue with this name.
    pub(super) fn queue(&self, name: &str) -> Result<&DeskQueue, DeskError> {
        let mut queues = self.queues.iter();
        let found = queues.find(|queue| queue.name == name);
        found
            .ok_or_else(|| DeskError::Refused(format!("this host does not serve a queue `{name}`")))
    }

    /// Takes these dead-letter queues for something, unless something else has one of them.
    pub(super) fn reserve(&self, urls: Vec<String>, what: &str) -> Result<Reserved, DeskError> {
        let mut busy = lock(&self.busy);
        if let Some(other) = urls.iter().find_map(|url| busy.get(url)) {
            return Err(DeskError::Conflict(format!(
                "{other} has these letters: wait for its end, or stop it"
            )));
        }
        for url in &urls {
            busy.insert(url.clone(), what.to_owned());
        }
        Ok(Reserved {
            busy: Arc::clone(&self.busy),
            urls,
        })
    }

    /// Whether a run of this host has moved letters of a queue since then.
    pub(crate) fn has_moved_since(&self, queue: &DeskQueue, then: Timestamp) -> bool {
        let moved = lock(&self.moved);
        let mut times = queue
            .dead_letters
            .iter()
            .filter_map(|it| moved.get(it.url()));
        times.any(|time| *time > then)
    }

    /// The letters with this id of which the surveys have kept the bodies.
    pub(crate) fn letters(&self, id: &str) -> Vec<LetterSample> {
        let surveys = lock(&self.surveys);
        let surveys = surveys.values().filter_map(|it| it.survey.as_ref());
        surveys
            .flat_map(|survey| survey.samples.with(id).cloned())
            .collect()
    }

    /// The bounds of a queue.
    pub(crate) fn bounds(&self, name: &str) -> Option<Bounds> {
        self.queue(name).ok().map(|queue| queue.bounds)
    }

    /// What is known of the dead letters of a queue.
    pub(crate) fn surveyed(&self, queue: &str) -> Surveying {
        let surveys = lock(&self.surveys);
        surveys.get(queue).map(Surveyed::now).unwrap_or_default()
    }

    /// Ends what is under way: letters are made visible again, and runs can be resumed.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(ENDS, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                "a survey or a run of dead letters has not ended within {ENDS:?}: its letters are invisible until their visibility timeout ends, and a run can be resumed"
            );
        }
    }
}
