//! Counts what a consumer has done.

use std::sync::Arc;

use serde::Serialize;

use super::polling::Polling;
use crate::queue::{Count, Requests};
use crate::shadow::{Counts, Tally};
use crate::telemetry;

/// The counts of one queue, readable while the consumer runs.
#[derive(Debug, Default)]
#[expect(
    missing_docs,
    reason = "documented in Summary and Requests, which have the same fields"
)]
pub struct Stats {
    pub received: Count,
    pub succeeded: Count,
    pub retried: Count,
    pub dead_lettered: Count,
    pub dead_letters_refused: Count,
    pub discarded: Count,
    pub sent_again: Count,
    pub duplicates: Count,
    pub handed_back: Count,
    pub unsettled: Count,
    pub fallbacks: Count,
    pub receive_requests: Count,
    pub receive_errors: Count,
    pub requests: Arc<Requests>,
    pub shadow: Option<Arc<Counts>>,
    polling: Arc<Polling>,
}

/// The counts of one queue at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Messages received, each receive counted.
    pub received: u64,
    /// Messages handled successfully and deleted.
    pub succeeded: u64,
    /// Failures that are retried.
    pub retried: u64,
    /// Messages sent to the dead-letter queue and deleted here.
    pub dead_lettered: u64,
    /// Times that the dead-letter queue refused a message. It is sent again.
    pub dead_letters_refused: u64,
    /// Messages that the policy discarded.
    pub discarded: u64,
    /// Messages sent to their queue again, to wait there for longer than by visibility. Each time counts.
    pub sent_again: u64,
    /// Second copies of messages, left by a host that stopped between sending a message again and deleting it, or by a send whose answer was lost.
    pub duplicates: u64,
    /// Messages returned without an attempt: at a shutdown, or behind a failure in their group.
    pub handed_back: u64,
    /// Outcomes that could not be applied. The message is delivered again.
    pub unsettled: u64,
    /// Decisions of the fallback, because the policy was broken.
    pub fallbacks: u64,
    /// `ReceiveMessage` requests.
    pub receive_requests: u64,
    /// Failed `ReceiveMessage` requests.
    pub receive_errors: u64,
    /// `DeleteMessageBatch` requests.
    pub delete_requests: u64,
    /// `ChangeMessageVisibilityBatch` requests.
    pub visibility_requests: u64,
    /// `SendMessageBatch` requests.
    pub send_requests: u64,
    /// All requests divided by the messages that left the queue.
    pub requests_per_message: f64,
    /// The shadow's results for the same failures, if the queue has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Tally>,
}

impl Stats {
    /// The counts of the queue with this name and of its shadow, exported as metrics too.
    pub(super) fn of(queue: &str, shadow: Option<Arc<Counts>>) -> Self {
        let queue = telemetry::Queue::named(queue);
        let messages = |outcome| Count::exported_as(queue.messages(outcome));
        Self {
            received: Count::exported_as(queue.received()),
            succeeded: messages("succeeded"),
            retried: messages("retried"),
            dead_lettered: messages("dead-lettered"),
            dead_letters_refused: Count::exported_as(queue.dead_letters_refused()),
            discarded: messages("discarded"),
            // Exported with the holds, labelled by how.
            sent_again: Count::default(),
            duplicates: Count::exported_as(queue.duplicates()),
            handed_back: messages("handed-back"),
            unsettled: messages("unsettled"),
            // Exported with the decisions, labelled by who decided.
            fallbacks: Count::default(),
            receive_requests: Count::exported_as(queue.requests("receive")),
            receive_errors: Count::exported_as(queue.receive_errors()),
            requests: Arc::new(Requests::exported_as(|operation| queue.requests(operation))),
            shadow,
            polling: Arc::default(),
        }
    }

    /// How the queue is polled.
    pub(crate) fn polling(&self) -> &Arc<Polling> {
        &self.polling
    }

    /// The counts now.
    pub fn summary(&self) -> Summary {
        let Requests {
            deletes,
            changes,
            sends,
        } = self.requests.as_ref();
        let requests = self.receive_requests.get() + deletes.get() + changes.get() + sends.get();
        let left = self.succeeded.get() + self.dead_lettered.get() + self.discarded.get();
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let requests_per_message = if left == 0 {
            0.0
        } else {
            requests as f64 / left as f64
        };
        Summary {
            received: self.received.get(),
            succeeded: self.succeeded.get(),
            retried: self.retried.get(),
            dead_lettered: self.dead_lettered.get(),
            dead_letters_refused: self.dead_letters_refused.get(),
            discarded: self.discarded.get(),
            sent_again: self.sent_again.get(),
            duplicates: self.duplicates.get(),
            handed_back: self.handed_back.get(),
            unsettled: self.unsettled.get(),
            fallbacks: self.fallbacks.get(),
            receive_requests: self.receive_requests.get(),
            receive_errors: self.receive_errors.get(),
            delete_requests: deletes.get(),
            visibility_requests: changes.get(),
            send_requests: sends.get(),
            requests_per_message,
            shadow: self.shadow.as_deref().map(Counts::tally),
        }
    }
}
