//! Makes a survey: every letter is received once, and is visible again at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backstop_core::clock;
use backstop_core::lock::lock;
use backstop_core::text::{chain, one_line};
use backstop_dead_letters::redrive::holder;
use backstop_dead_letters::{Attempts, ReadOptions, Reader, Seen};
use backstop_engine::Policy;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::DeskError;
use super::classify::{Classified, Classifier};
use super::desk::Desk;
use super::row::{Row, Texts};
use super::sample::Samples;
use super::survey::{QueueSeen, Survey};
use crate::queue::Queue;

/// The most surveys that a host keeps.
const KEPT: usize = 20;

/// The longest pointer, in bytes.
const POINTER_BYTES: usize = 200;

/// What is asked of a survey.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SurveyRequest {
    /// The queue whose dead letters are meant.
    pub queue: String,
    /// A JSON pointer into the bodies, to group by.
    #[serde(default)]
    pub pointer: Option<String>,
    /// Whether the policy is asked about the last attempt, in place of a first one.
    #[serde(default)]
    pub keep_attempts: bool,
    /// The question of the page whose policy is asked, in place of the active version.
    #[serde(default)]
    pub what_if: Option<String>,
}

impl Desk {
    /// Begins a survey, which goes on in the background. Refused while another one, or a run, has letters of the queue.
    pub(crate) async fn survey(
        self: &Arc<Self>,
        request: SurveyRequest,
        policy: Option<Policy>,
        by: &str,
    ) -> Result<(), DeskError> {
        let pointer = request.pointer.filter(|pointer| !pointer.is_empty());
        if let Some(pointer) = &pointer
            && (!pointer.starts_with('/') || pointer.len() > POINTER_BYTES)
        {
            return Err(DeskError::Refused(format!(
                "`{}` is no JSON pointer: expected one such as /order/customer, of {POINTER_BYTES} bytes at most",
                one_line(pointer)
            )));
        }
        let queue = self.queue(&request.queue)?;
        if queue.dead_letters.is_empty() {
            return Err(DeskError::Refused(format!(
                "the queue `{}` has no dead-letter queue",
                queue.name
            )));
        }
        let urls = queue.dead_letters.iter().map(|dead| dead.url().to_owned());
        let reserved = self.reserve(urls.collect(), &format!("a survey by {by}"))?;
        for dead in &queue.dead_letters {
            self.not_redriven(dead).await?;
        }
        let read = Arc::<AtomicU64>::default();
        {
            let mut surveys = lock(&self.surveys);
            let surveyed = surveys.entry(queue.name.clone()).or_default();
            surveyed.reading = Some((by.to_owned(), clock::now(), Arc::clone(&read)));
        }
        let attempts = Attempts::keep_if(request.keep_attempts);
        let reading = Reading {
            classifier: Arc::new(Classifier {
                policy: policy.unwrap_or_else(|| queue.policy.current().as_ref().clone()),
                bounds: queue.bounds,
                attempts,
                assumed: None,
            }),
            pointer,
            home: queue.arn.clone(),
            read,
            rows: Vec::new(),
            samples: Samples::default(),
            texts: Texts::default(),
            unknown: BTreeMap::new(),
        };
        let (desk, by, name) = (Arc::clone(self), by.to_owned(), queue.name.clone());
        let dead = queue.dead_letters.clone();
        let _task = self.tasks.spawn(async move {
            let stop = desk.stop.clone();
            // A task of its own: if it breaks off, that is an answer, too.
            let made = tokio::spawn(async move { reading.all(&dead, &stop, by).await }).await;
            let made = made.unwrap_or_else(|error| Err(error.to_string()));
            desk.keep(&name, made);
            drop(reserved);
        });
        Ok(())
    }

    /// Refuses if a run has letters of a dead-letter queue: both would miss letters.
    pub(super) async fn not_redriven(&self, dead: &Arc<dyn Queue>) -> Result<(), DeskError> {
        // Without permission for tags, nobody knows.
        let Ok(Some(holder)) = holder(&**dead).await else {
            return Ok(());
        };
        if holder.until > dead.now() {
            return Err(DeskError::Conflict(format!(
                "the run {} of {} moves letters of this queue: wait for its end, or stop it",
                one_line(&holder.run),
                one_line(&holder.who)
            )));
        }
        Ok(())
    }

    fn keep(&self, queue: &str, made: Result<Survey, String>) {
        let mut surveys = lock(&self.surveys);
        let surveyed = surveys.entry(queue.to_owned()).or_default();
        surveyed.reading = None;
        match made {
            Ok(survey) => {
                tracing::info!(queue, letters = survey.rows.len(), "dead letters surveyed");
                surveyed.failed = None;
                surveyed.survey = Some(Arc::new(survey));
            }
            Err(why) => {
                tracing::warn!(queue, "a survey of dead letters failed: {why}");
                surveyed.failed = Some(why);
            }
        }
        // Only so many: the oldest one is forgotten.
        while surveys.values().filter(|it| it.survey.is_some()).count() > KEPT {
            let ages = surveys.values_mut();
            let oldest =
                ages.min_by_key(|it| it.survey.as_ref().map(|it| it.at.0).unwrap_or(u64::MAX));
            if let Some(oldest) = oldest {
                oldest.survey = None;
            }
        }
    }
}

/// A survey that is made.
struct Reading {
    classifier: Arc<Classifier>,
    pointer: Option<String>,
    home: String,
    read: Arc<AtomicU64>,
    rows: Vec<Row>,
    samples: Samples,
    texts: Texts,
    unknown: BTreeMap<&'static str, u64>,
}

impl Reading {
    async fn all(
        mut self,
        dead: &[Arc<dyn Queue>],
        stop: &CancellationToken,
        by: String,
    ) -> Result<Survey, String> {
        let mut queues = Vec::new();
        for (number, queue) in dead.iter().enumerate() {
            let seen = self.one(number, queue, stop).await;
            let seen = seen.map_err(|why| format!("{}: {why}", queue.url()))?;
            queues.push(QueueSeen::of(queue.url(), &seen));
        }
        Ok(Survey {
            id: format!("{:016x}", rand::random::<u64>()),
            at: clock::now(),
            by,
            policy: self.classifier.policy.title(),
            attempts: self.classifier.attempts,
            pointer: self.pointer,
            queues,
            rows: self.rows,
            samples: self.samples,
            unknown: self.unknown,
        })
    }

    /// Reads one queue. Its letters are made visible again, whatever happens.
    async fn one(
        &mut self,
        number: usize,
        queue: &Arc<dyn Queue>,
        stop: &CancellationToken,
    ) -> Result<Seen, String> {
        let opened = Reader::open(Arc::clone(queue), ReadOptions::default()).await;
        let mut reader = opened.map_err(|error| chain(&error))?;
        let read = self.letters((number, queue.url()), &mut reader, stop).await;
        let seen = reader.release().await;
        read.map(|()| seen)
    }

    async fn letters(
        &mut self,
        place: (usize, &str),
        reader: &mut Reader,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        loop {
            let letters = reader.next(stop).await;
            let letters = letters.map_err(|error| chain(&error))?;
            if letters.is_empty() {
                return Ok(());
            }
            self.read.fetch_add(letters.len() as u64, Ordering::Relaxed);
            let classifier = Arc::clone(&self.classifier);
            // A policy may take long.
            let classified = tokio::task::spawn_blocking(move || -> Vec<_> {
                let letters = letters.into_iter();
                letters.map(|letter| classifier.classify(letter)).collect()
            });
            for classified in classified.await.map_err(|error| error.to_string())? {
                self.add(place, &classified);
            }
        }
    }

    fn add(&mut self, (number, url): (usize, &str), classified: &Classified) {
        for what in &classified.unknown {
            *self.unknown.entry(what).or_default() += 1;
        }
        let place = (number, url, self.home.as_str());
        let pointer = self.pointer.as_deref();
        let (letter, would) = (&classified.letter, classified.would());
        let row = Row::of(letter, would, place, pointer, &mut self.texts);
        let cause = [&row.reason, &row.code, &row.fingerprint].map(Clone::clone);
        let would = format!("{} {}", row.verdict.as_str(), row.answer);
        self.samples.add(letter, url, cause, would.trim());
        self.rows.push(row);
    }
}
