//! What a consumer has done so far, counted.

use std::sync::Arc;

use serde::Serialize;

use crate::queue::{Count, Requests};
use crate::shadow::{Counts, Tally};
use crate::telemetry;

/// The counts of one queue; readable while the consumer runs.
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
    pub handed_back: Count,
    pub unsettled: Count,
    pub fallbacks: Count,
    pub receive_requests: Count,
    pub receive_errors: Count,
    pub requests: Arc<Requests>,
    pub shadow: Option<Arc<Counts>>,
}

/// The counts of one queue at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Messages received, each receive counted.
    pub received: u64,
    /// Messages whose work was done, and which were deleted.
    pub succeeded: u64,
    /// Failures decided to be tried again.
    pub retried: u64,
    /// Messages sent to the dead-letter queue and deleted here.
    pub dead_lettered: u64,
    /// Times that the dead-letter queue did not take a message. It is sent again.
    pub dead_letters_refused: u64,
    /// Messages dropped by a policy's verdict.
    pub discarded: u64,
    /// Messages given back without an attempt: at the end, or behind a failure in their group.
    pub handed_back: u64,
    /// Outcomes that could not be applied: the message comes again by itself.
    pub unsettled: u64,
    /// Decisions by the host's fallback, since the policy was broken.
    pub fallbacks: u64,
    /// `ReceiveMessage` requests.
    pub receive_requests: u64,
    /// Those of them that failed.
    pub receive_errors: u64,
    /// `DeleteMessageBatch` requests.
    pub delete_requests: u64,
    /// `ChangeMessageVisibilityBatch` requests.
    pub visibility_requests: u64,
    /// `SendMessageBatch` requests.
    pub send_requests: u64,
    /// All requests, for each message that left the queue.
    pub requests_per_message: f64,
    /// What a shadow made of the same failures, where the queue has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Tally>,
}

impl Stats {
    /// The counts of the queue of this name and of its shadow, which metrics show too.
    pub(super) fn of(queue: &str, shadow: Option<Arc<Counts>>) -> Self {
        let queue = telemetry::Queue::named(queue);
        let messages = |outcome| Count::shown_as(queue.messages(outcome));
        Self {
            received: Count::shown_as(queue.received()),
            succeeded: messages("succeeded"),
            retried: messages("retried"),
            dead_lettered: messages("dead-lettered"),
            dead_letters_refused: Count::shown_as(queue.dead_letters_refused()),
            discarded: messages("discarded"),
            handed_back: messages("handed-back"),
            unsettled: messages("unsettled"),
            // Among the decisions, by whose word they are.
            fallbacks: Count::default(),
            receive_requests: Count::shown_as(queue.requests("receive")),
            receive_errors: Count::shown_as(queue.receive_errors()),
            requests: Arc::new(Requests::of(&queue)),
            shadow,
        }
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
