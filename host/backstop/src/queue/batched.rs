//! Deletes, changes of visibility and sends of single messages, made into few requests: ten entries each, every entry of the answer read, and what may still succeed tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::Counter;
use tokio::time::Instant;

use super::batcher::{Batcher, Entry, GaveUp, Request};
use super::{Outgoing, Queue, ReceiptHandle, VisibilityTimeout};
use crate::telemetry;

/// How long a request waits for those that are made at the same moment.
const PROMPT: Duration = Duration::from_millis(10);

/// One number that only grows.
#[derive(Debug)]
pub struct Count {
    number: AtomicU64,
    metric: Counter,
}

impl Default for Count {
    fn default() -> Self {
        Self::shown_as(Counter::noop())
    }
}

impl Count {
    /// One that a metric shows too.
    pub(crate) fn shown_as(metric: Counter) -> Self {
        Self {
            number: AtomicU64::new(0),
            metric,
        }
    }

    pub(crate) fn add(&self, more: u64) {
        self.number.fetch_add(more, Ordering::Relaxed);
        self.metric.increment(more);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// API requests made so far.
#[derive(Debug, Default)]
pub struct Requests {
    /// `DeleteMessageBatch`.
    pub deletes: Count,
    /// `ChangeMessageVisibilityBatch`.
    pub changes: Count,
    /// `SendMessageBatch`.
    pub sends: Count,
}

impl Requests {
    /// Those of a queue, which its metrics show too.
    pub(crate) fn of(queue: &telemetry::Queue) -> Self {
        Self {
            deletes: Count::shown_as(queue.requests("delete")),
            changes: Count::shown_as(queue.requests("change-visibility")),
            sends: Count::shown_as(queue.requests("send")),
        }
    }
}

impl Entry for ReceiptHandle {
    fn size(&self) -> usize {
        self.0.len()
    }
}

impl Entry for (ReceiptHandle, VisibilityTimeout) {
    fn size(&self) -> usize {
        self.0.0.len()
    }
}

impl Entry for Outgoing {
    fn size(&self) -> usize {
        Outgoing::size(self)
    }
}

/// Deletes and changes of visibility of one queue, in batches.
pub(crate) struct Batched {
    deletes: Batcher<ReceiptHandle>,
    changes: Batcher<(ReceiptHandle, VisibilityTimeout)>,
    prompt_changes: Batcher<(ReceiptHandle, VisibilityTimeout)>,
}

impl Batched {
    /// A request waits for at most `linger` for others to go with it.
    pub(crate) fn start(
        queue: &Arc<dyn Queue>,
        linger: Duration,
        requests: &Arc<Requests>,
    ) -> Self {
        Self {
            deletes: Batcher::start(linger, deletes(Arc::clone(queue), Arc::clone(requests))),
            changes: Batcher::start(linger, changes(Arc::clone(queue), Arc::clone(requests))),
            prompt_changes: Batcher::start(
                linger.min(PROMPT),
                changes(Arc::clone(queue), Arc::clone(requests)),
            ),
        }
    }

    /// Removes a message for good. Tried until `until`, as the others are.
    pub(crate) async fn delete(
        &self,
        handle: &ReceiptHandle,
        until: Instant,
    ) -> Result<(), GaveUp> {
        self.deletes.submit(handle.clone(), until).await
    }

    /// Makes a message visible again after another time, counted from now.
    pub(crate) async fn hide(
        &self,
        handle: &ReceiptHandle,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), GaveUp> {
        self.changes.submit((handle.clone(), timeout), until).await
    }

    /// The same, with those only that come at the same moment.
    pub(crate) async fn hide_now(
        &self,
        handle: &ReceiptHandle,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), GaveUp> {
        let change = (handle.clone(), timeout);
        self.prompt_changes.submit(change, until).await
    }
}

/// Sends to one queue, in batches.
pub(crate) struct BatchedSends(Batcher<Outgoing>);

impl BatchedSends {
    /// A message waits for at most `linger` to share a request with others.
    pub(crate) fn start(
        queue: &Arc<dyn Queue>,
        linger: Duration,
        requests: &Arc<Requests>,
    ) -> Self {
        Self(Batcher::start(
            linger,
            sends(Arc::clone(queue), Arc::clone(requests)),
        ))
    }

    /// Sends a message, with retries until `until`.
    pub(crate) async fn send(&self, message: Outgoing, until: Instant) -> Result<(), GaveUp> {
        self.0.submit(message, until).await
    }
}

fn deletes(queue: Arc<dyn Queue>, requests: Arc<Requests>) -> Request<ReceiptHandle> {
    Arc::new(move |handles| {
        let queue = Arc::clone(&queue);
        requests.deletes.add(1);
        Box::pin(async move { queue.delete(&handles).await })
    })
}

fn changes(
    queue: Arc<dyn Queue>,
    requests: Arc<Requests>,
) -> Request<(ReceiptHandle, VisibilityTimeout)> {
    Arc::new(move |changes| {
        let queue = Arc::clone(&queue);
        requests.changes.add(1);
        Box::pin(async move { queue.change_visibility(&changes).await })
    })
}

fn sends(queue: Arc<dyn Queue>, requests: Arc<Requests>) -> Request<Outgoing> {
    Arc::new(move |messages| {
        let queue = Arc::clone(&queue);
        requests.sends.add(1);
        Box::pin(async move { queue.send(&messages).await })
    })
}
