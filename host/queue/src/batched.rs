//! Combines deletes, visibility changes and sends of single messages into batch requests of ten entries. Each entry gets its own result, and entries that may still succeed are retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_core::backoff::Backoff;
use metrics::Counter;
use tokio::time::Instant;

use super::batcher::{Answer, Batcher, Entry, Request};
use super::error::{OTHER_CODE, listed_code};
use super::linger::Linger;
use super::{
    AFTER_LOST_SEND, Outgoing, Queue, QueueError, ReceiptHandle, SubmitError, VisibilityTimeout,
};

/// How long an urgent request waits for others to share its batch.
const PROMPT: Duration = Duration::from_millis(10);

/// The operation of [`Requests::failed`] for a receive.
pub const RECEIVE: &str = "receive";

/// The most batches of deletes, and of changes, under way at the same time: 48 polls behind 10 ms of latency need this many.
const SMALL_BATCHES: usize = 64;

/// The most batches of messages under way at the same time: each can have 1 MiB.
const LARGE_BATCHES: usize = 16;

/// A counter.
#[derive(Debug)]
pub struct Count {
    number: AtomicU64,
    metric: Counter,
}

impl Default for Count {
    fn default() -> Self {
        Self::exported_as(Counter::noop())
    }
}

impl Count {
    /// A counter that is exported as this metric too.
    pub fn exported_as(metric: Counter) -> Self {
        Self {
            number: AtomicU64::new(0),
            metric,
        }
    }

    /// Counts `more`.
    pub fn add(&self, more: u64) {
        self.number.fetch_add(more, Ordering::Relaxed);
        self.metric.increment(more);
    }

    /// The current number.
    pub fn get(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// Makes the metric of a failed request or entry, by the operation and the code.
type Failures = Box<dyn Fn(&'static str, &'static str) -> Counter + Send + Sync>;

const DELETE: &str = "delete";
const CHANGE: &str = "change-visibility";
const SEND: &str = "send";

/// API requests made so far.
#[derive(Default)]
pub struct Requests {
    /// `DeleteMessageBatch`.
    pub deletes: Count,
    /// `ChangeMessageVisibilityBatch`.
    pub changes: Count,
    /// `SendMessageBatch`.
    pub sends: Count,
    failures: Option<Failures>,
}

backstop_core::shown!(Requests, it => deletes = it.deletes, changes = it.changes, sends = it.sends);

impl Requests {
    /// The requests to a queue, exported as this metric of each operation too.
    pub fn exported_as(metric: impl Fn(&'static str) -> Counter) -> Self {
        let count = |operation| Count::exported_as(metric(operation));
        Self {
            deletes: count(DELETE),
            changes: count(CHANGE),
            sends: count(SEND),
            failures: None,
        }
    }

    /// With this metric of each request and each entry that fails, by the operation and one of [`ERROR_CODES`](crate::ERROR_CODES). It exists from now on with the code `other`.
    pub fn failures_exported_as(
        self,
        metric: impl Fn(&'static str, &'static str) -> Counter + Send + Sync + 'static,
    ) -> Self {
        for operation in [RECEIVE, DELETE, CHANGE, SEND] {
            metric(operation, OTHER_CODE).increment(0);
        }
        Self {
            failures: Some(Box::new(metric)),
            ..self
        }
    }

    /// A request failed as a whole.
    pub fn failed(&self, operation: &'static str, error: &QueueError) {
        self.failed_with(operation, &error.code);
    }

    fn failed_with(&self, operation: &'static str, code: &str) {
        if let Some(metric) = &self.failures {
            metric(operation, listed_code(code)).increment(1);
        }
    }

    /// Counts what failed of a batch.
    fn answered<T>(&self, operation: &'static str, answer: Answer<T>) -> Answer<T> {
        match &answer {
            Ok(entries) => {
                for error in entries.iter().filter_map(|entry| entry.as_ref().err()) {
                    self.failed_with(operation, &error.code);
                }
            }
            Err(error) => self.failed(operation, error),
        }
        answer
    }
}

impl Entry for ReceiptHandle {
    type Accepted = ();

    const CONCURRENT: usize = SMALL_BATCHES;

    fn size(&self) -> usize {
        self.0.len()
    }
}

impl Entry for (ReceiptHandle, VisibilityTimeout) {
    type Accepted = ();

    const CONCURRENT: usize = SMALL_BATCHES;

    fn size(&self) -> usize {
        self.0.0.len()
    }
}

/// A message to send, and when its delay began.
type Submitted = (Outgoing, Instant);

impl Entry for Submitted {
    /// Its id, if the queue has said it.
    type Accepted = Option<String>;

    const CONCURRENT: usize = LARGE_BATCHES;
    const AFTER_UNKNOWN: Backoff = AFTER_LOST_SEND;

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Batches the deletes and visibility changes of one queue.
pub struct Batched {
    deletes: Batcher<ReceiptHandle>,
    changes: Batcher<(ReceiptHandle, VisibilityTimeout)>,
    prompt_changes: Batcher<(ReceiptHandle, VisibilityTimeout)>,
}

impl Batched {
    /// Starts the batchers. A request waits for at most `linger` for others to share its batch.
    pub fn start(queue: &Arc<dyn Queue>, linger: Linger, requests: &Arc<Requests>) -> Self {
        let changes = || changes(Arc::clone(queue), Arc::clone(requests));
        let deletes = deletes(Arc::clone(queue), Arc::clone(requests));
        Self {
            prompt_changes: Batcher::start(linger.longest().min(PROMPT), changes()),
            changes: Batcher::start(linger.clone(), changes()),
            deletes: Batcher::start(linger, deletes),
        }
    }

    /// Deletes a message, with retries until `until`.
    pub async fn delete(&self, handle: &ReceiptHandle, until: Instant) -> Result<(), SubmitError> {
        self.deletes.submit(handle.clone(), until).await
    }

    /// Changes when a message becomes visible again, counted from now. Retries until `until`.
    pub async fn change_visibility(
        &self,
        handle: &ReceiptHandle,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), SubmitError> {
        self.changes.submit((handle.clone(), timeout), until).await
    }

    /// Like [`Batched::change_visibility`], but waits for only 10 ms for others to share its batch.
    pub async fn change_visibility_now(
        &self,
        handle: &ReceiptHandle,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), SubmitError> {
        let change = (handle.clone(), timeout);
        self.prompt_changes.submit(change, until).await
    }
}

/// Batches the sends to one queue.
pub struct BatchedSends(Batcher<Submitted>);

impl BatchedSends {
    /// Starts the batcher. A message waits for at most `linger` for others to share its batch.
    pub fn start(queue: &Arc<dyn Queue>, linger: Linger, requests: &Arc<Requests>) -> Self {
        Self(Batcher::start(
            linger,
            sends(Arc::clone(queue), Arc::clone(requests)),
        ))
    }

    /// Sends a message, with retries until `until`. Its delay counts from now, however long the requests take. Returns its id, if the queue has said it.
    pub async fn send(
        &self,
        message: Outgoing,
        until: Instant,
    ) -> Result<Option<String>, SubmitError> {
        self.0.submit((message, Instant::now()), until).await
    }
}

/// Batches changes that make messages visible at given times.
pub struct BatchedWakes(Batcher<(ReceiptHandle, Instant)>);

impl Entry for (ReceiptHandle, Instant) {
    type Accepted = ();

    const CONCURRENT: usize = SMALL_BATCHES;

    fn size(&self) -> usize {
        self.0.0.len()
    }
}

impl BatchedWakes {
    /// Starts the batcher, which ends when this is dropped.
    pub fn start(queue: &Arc<dyn Queue>, requests: &Arc<Requests>) -> Self {
        let request = wakes(Arc::clone(queue), Arc::clone(requests));
        Self(Batcher::start(PROMPT, request))
    }

    /// Makes a message visible at this time, or earlier by less than a second, however long the requests take. Retries until `until`.
    pub async fn make_visible_at(
        &self,
        handle: ReceiptHandle,
        at: Instant,
        until: Instant,
    ) -> Result<(), SubmitError> {
        self.0.submit((handle, at), until).await
    }
}

fn wakes(queue: Arc<dyn Queue>, requests: Arc<Requests>) -> Request<(ReceiptHandle, Instant)> {
    Arc::new(move |wakes| {
        let (queue, requests) = (Arc::clone(&queue), Arc::clone(&requests));
        requests.changes.add(1);
        let now = Instant::now();
        let left = |(handle, at): (ReceiptHandle, Instant)| {
            let seconds = at.saturating_duration_since(now).as_secs();
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            (handle, VisibilityTimeout::from_seconds(seconds))
        };
        let changes: Vec<_> = wakes.into_iter().map(left).collect();
        Box::pin(async move { requests.answered(CHANGE, queue.change_visibility(&changes).await) })
    })
}

fn deletes(queue: Arc<dyn Queue>, requests: Arc<Requests>) -> Request<ReceiptHandle> {
    Arc::new(move |handles| {
        let (queue, requests) = (Arc::clone(&queue), Arc::clone(&requests));
        requests.deletes.add(1);
        Box::pin(async move { requests.answered(DELETE, queue.delete(&handles).await) })
    })
}

fn changes(
    queue: Arc<dyn Queue>,
    requests: Arc<Requests>,
) -> Request<(ReceiptHandle, VisibilityTimeout)> {
    Arc::new(move |changes| {
        let (queue, requests) = (Arc::clone(&queue), Arc::clone(&requests));
        requests.changes.add(1);
        Box::pin(async move { requests.answered(CHANGE, queue.change_visibility(&changes).await) })
    })
}

fn sends(queue: Arc<dyn Queue>, requests: Arc<Requests>) -> Request<Submitted> {
    Arc::new(move |submitted| {
        let (queue, requests) = (Arc::clone(&queue), Arc::clone(&requests));
        requests.sends.add(1);
        let left = |(message, since): Submitted| Outgoing {
            delay: message.delay.map(|it| it.saturating_sub(since.elapsed())),
            ..message
        };
        let messages: Vec<_> = submitted.into_iter().map(left).collect();
        Box::pin(async move { requests.answered(SEND, queue.send_tracked(&messages).await) })
    })
}
