//! What a trial sees: each attempt with its time, its end, and what was decided about it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::lock::lock;
use tokio::time::Instant;

use super::virtual_time::VirtualTime;
use crate::failure::Error;
use crate::handler::Handler;
use crate::queue::Message;
use crate::record::{DecisionRecord, Observer};

/// One attempt of a message.
#[derive(Debug, Clone)]
pub struct TriedAttempt {
    /// The queue's name in the configuration.
    pub queue: String,
    /// The message's id.
    pub message_id: String,
    /// The message's body.
    pub body: Arc<str>,
    /// The number of the attempt, from 1. One that does not count has the number that the next one has, too.
    pub number: u32,
    /// When it began, from the beginning of the trial.
    pub at: Duration,
    /// How much virtual time it took.
    pub took: Duration,
    /// How it ended.
    pub ended: Ended,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum Ended {
    /// The message is done.
    Succeeded,
    /// It has failed, and this was decided. The error of an attempt that took too long is in the record.
    Failed(Box<DecisionRecord>),
    /// It was no attempt: the worker was unavailable, or the trial has ended meanwhile.
    NotCounted(Option<Error>),
}

/// The attempts so far.
#[derive(Debug)]
pub(super) struct Journal {
    begin: Instant,
    time: VirtualTime,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    attempts: Vec<TriedAttempt>,
    /// The place of the last attempt of each message, by queue and id.
    last: HashMap<(String, String), usize>,
}

impl Journal {
    pub(super) fn new(begin: Instant, time: VirtualTime) -> Self {
        Self {
            begin,
            time,
            seen: Mutex::default(),
        }
    }

    /// All attempts. Those that began at the same time are in the order of their messages' bodies, since threads take turns as they like.
    pub(super) fn attempts(&self) -> Vec<TriedAttempt> {
        let mut attempts = std::mem::take(&mut lock(&self.seen).attempts);
        attempts.sort_by(|a, b| {
            let key =
                |it: &TriedAttempt| (it.at, it.queue.clone(), Arc::clone(&it.body), it.number);
            key(a).cmp(&key(b))
        });
        attempts
    }

    /// An attempt begins. Returns its place.
    fn began(&self, queue: &str, message: &Message) -> usize {
        let mut seen = lock(&self.seen);
        let place = seen.attempts.len();
        let key = (queue.to_owned(), message.id.clone());
        let before = seen.last.insert(key, place);
        let before = before.and_then(|before| seen.attempts.get(before));
        let number = before.map_or(1, |it| it.number.saturating_add(it.counts().into()));
        seen.attempts.push(TriedAttempt {
            queue: queue.to_owned(),
            message_id: message.id.clone(),
            body: Arc::clone(&message.body),
            number,
            at: self.begin.elapsed(),
            took: Duration::ZERO,
            ended: Ended::NotCounted(None),
        });
        place
    }

    /// The attempt at this place has ended, or nobody waits for it.
    fn ended(&self, place: usize, outcome: Option<&Result<(), Error>>) {
        let elapsed = self.begin.elapsed();
        if let Some(attempt) = lock(&self.seen).attempts.get_mut(place) {
            attempt.took = elapsed.saturating_sub(attempt.at);
            attempt.ended = match outcome {
                Some(Ok(())) => Ended::Succeeded,
                Some(Err(error)) => Ended::NotCounted(Some(error.clone())),
                None => Ended::NotCounted(None),
            };
        }
    }
}

impl TriedAttempt {
    fn counts(&self) -> bool {
        !matches!(self.ended, Ended::NotCounted(_))
    }
}

impl Observer for Journal {
    fn decided(&self, record: &DecisionRecord) {
        let mut seen = lock(&self.seen);
        let key = (record.queue.clone(), record.failure.message_id.clone());
        let last = seen.last.get(&key).copied();
        let last = last.and_then(|place| seen.attempts.get_mut(place));
        if let Some(attempt) = last.filter(|it| !it.counts()) {
            attempt.number = record.failure.attempt.get();
            attempt.ended = Ended::Failed(Box::new(record.clone()));
        }
    }
}

/// A handler whose attempts are seen, and hold the time.
#[derive(Debug)]
pub(super) struct Watched {
    queue: String,
    handler: Arc<dyn Handler>,
    journal: Arc<Journal>,
}

impl Watched {
    pub(super) fn new(queue: &str, handler: Arc<dyn Handler>, journal: &Arc<Journal>) -> Self {
        Self {
            queue: queue.to_owned(),
            handler,
            journal: Arc::clone(journal),
        }
    }
}

/// An attempt under way. Its end is seen also if it is dropped.
struct UnderWay<'a> {
    journal: &'a Journal,
    place: usize,
    outcome: Option<Result<(), Error>>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.journal.ended(self.place, self.outcome.as_ref());
    }
}

#[async_trait]
impl Handler for Watched {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        self.handle_shared(Arc::new(message.clone())).await
    }

    async fn handle_shared(&self, message: Arc<Message>) -> Result<(), Error> {
        let mut under_way = UnderWay {
            journal: &self.journal,
            place: self.journal.began(&self.queue, &message),
            outcome: None,
        };
        let working = self.journal.time.attempt(message.receipt_handle.clone());
        let outcome = self.handler.handle_shared(message).await;
        under_way.outcome = Some(outcome.clone());
        drop(working);
        outcome
    }

    fn has_ended(&self, error: &Error) -> bool {
        self.handler.has_ended(error)
    }

    async fn check(&self) -> Result<(), Error> {
        self.handler.check().await
    }

    async fn is_reachable(&self) -> Result<(), Error> {
        self.handler.is_reachable().await
    }
}
