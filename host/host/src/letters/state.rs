//! What a host keeps of surveys and runs while it lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_dead_letters::redrive::{Activity, Runs};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::report::RunReport;
use super::survey::Survey;

/// What is known of the dead letters of a queue.
#[derive(Debug, Clone, Default)]
pub struct Surveying {
    /// The survey that is under way: who asked, when, and the letters read up to now.
    pub reading: Option<(String, Timestamp, u64)>,
    /// Why the last one failed.
    pub failed: Option<String>,
    /// The last one.
    pub survey: Option<Arc<Survey>>,
}

/// What is kept for a queue.
#[derive(Debug, Default)]
pub(super) struct Surveyed {
    pub(super) reading: Option<(String, Timestamp, Arc<AtomicU64>)>,
    pub(super) failed: Option<String>,
    pub(super) survey: Option<Arc<Survey>>,
}

impl Surveyed {
    pub(super) fn now(&self) -> Surveying {
        let reading = self.reading.as_ref();
        Surveying {
            reading: reading
                .map(|(by, since, read)| (by.clone(), *since, read.load(Ordering::Relaxed))),
            failed: self.failed.clone(),
            survey: self.survey.clone(),
        }
    }
}

/// The runs of a place that several operators share, as they were listed last.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) at: Instant,
    pub(super) runs: Runs,
}

/// A run that this host carries out.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) activity: Arc<Activity>,
    pub(super) stop: CancellationToken,
}

/// What was read of runs that nobody works on, and how runs of this host failed.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    pub(super) read: Mutex<HashMap<String, (Stamp, RunReport)>>,
    pub(super) failed: Mutex<HashMap<String, String>>,
}

/// What tells whether a journal has changed.
pub(super) type Stamp = Option<(u64, SystemTime)>;

impl Summaries {
    pub(super) fn set_failed(&self, run: &str, why: Option<String>) {
        let mut failed = lock(&self.failed);
        match why {
            Some(why) => drop(failed.insert(run.to_owned(), why)),
            None => drop(failed.remove(run)),
        }
    }
}
