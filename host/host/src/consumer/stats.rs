//! Counts what a consumer has done.

use std::sync::Arc;

use serde::Serialize;

use super::behind::Behind;
use super::depths::Depths;
use super::measures::{CountedLetter, Measures};
use super::polling::Polling;
use crate::queue::{Count, Requests};
use crate::shadow::{Counts, Tally};
use crate::telemetry;
use backstop_decider::DecidedFailure;

/// Makes [`Stats`] and [`Summary`] from the list of counts: what each counts, and the metric that exports it.
macro_rules! counts {
    ($($(#[doc = $meaning:literal])+ $count:ident = $exported:expr;)*) => {
        /// The counts of one queue, readable while the consumer runs.
        #[derive(Debug)]
        pub struct Stats {
            $($(#[doc = $meaning])+ pub $count: Count,)*
            /// The requests that change the queue.
            pub requests: Arc<Requests>,
            /// The counts of the shadow, if the queue has one.
            pub shadow: Option<Arc<Counts>>,
            /// Its dead letters by class and version.
            pub(crate) letters: telemetry::DeadLetters,
            pub(super) measures: Measures,
            pub(super) behind: Behind,
            /// The depths that were read last.
            pub(crate) depths: Depths,
            polling: Arc<Polling>,
        }

        /// The counts of one queue at one point in time.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct Summary {
            $($(#[doc = $meaning])+ pub $count: u64,)*
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
            /// The counts of the queue with this name, whose configuration names these classes, and of its shadow, exported as metrics too.
            pub(super) fn of(
                queue: &str,
                classes: impl IntoIterator<Item = String>,
                shadow: Option<Arc<Counts>>,
            ) -> Self {
                let letters = telemetry::DeadLetters::of(queue, classes);
                let queue = telemetry::Queue::named(queue);
                $(let $count: fn(&telemetry::Queue) -> Count = $exported;)*
                Self {
                    $($count: $count(&queue),)*
                    measures: Measures::of(&queue),
                    behind: Behind::default(),
                    depths: Depths::default(),
                    letters,
                    requests: Arc::new(requests(&queue)),
                    shadow,
                    polling: Arc::default(),
                }
            }

            /// The counts now.
            pub fn summary(&self) -> Summary {
                let Requests { deletes, changes, sends, .. } = self.requests.as_ref();
                Summary {
                    $($count: self.$count.get(),)*
                    delete_requests: deletes.get(),
                    visibility_requests: changes.get(),
                    send_requests: sends.get(),
                    requests_per_message: self.requests_per_message(),
                    shadow: self.shadow.as_deref().map(Counts::tally),
                }
            }
        }
    };
}

counts! {
    /// Messages received, each receive counted.
    received = |queue| Count::exported_as(queue.received());
    /// Messages handled successfully and deleted.
    succeeded = |queue| Count::exported_as(queue.messages("succeeded"));
    /// Failures that are retried.
    retried = |queue| Count::exported_as(queue.messages("retried"));
    /// Messages sent to the dead-letter queue and deleted here.
    dead_lettered = |queue| Count::exported_as(queue.messages("dead-lettered"));
    /// Times that the dead-letter queue refused a message. It is sent again.
    dead_letters_refused = |queue| Count::exported_as(queue.dead_letters_refused());
    /// Messages that the policy discarded.
    discarded = |queue| Count::exported_as(queue.messages("discarded"));
    /// Messages sent to their queue again, to wait there for longer than by visibility. Each time counts.
    // Exported with the holds, labelled by how.
    sent_again = |_| Count::default();
    /// Second copies of messages, left by a host that stopped between sending a message again and deleting it, or by a send whose answer was lost.
    duplicates = |queue| Count::exported_as(queue.duplicates());
    /// Messages returned without an attempt: at a shutdown, or behind a failure in their group.
    handed_back = |queue| Count::exported_as(queue.messages("handed-back"));
    /// Outcomes that could not be applied. The message is delivered again.
    unsettled = |queue| Count::exported_as(queue.messages("unsettled"));
    /// Decisions of the fallback, because the policy was broken.
    // Exported with the decisions, labelled by who decided.
    fallbacks = |_| Count::default();
    /// `ReceiveMessage` requests.
    receive_requests = |queue| Count::exported_as(queue.requests("receive"));
    /// Failed `ReceiveMessage` requests.
    receive_errors = |queue| Count::exported_as(queue.receive_errors());
}

fn requests(queue: &telemetry::Queue) -> Requests {
    let failures = queue.clone();
    Requests::exported_as(|operation| queue.requests(operation))
        .failures_exported_as(move |operation, code| failures.request_errors(operation, code))
}

impl Stats {
    /// How the dead letter of a message is counted.
    pub(super) fn letter(&self, decided: DecidedFailure<'_>) -> CountedLetter {
        let of = decided.map(|(_, decided)| (&decided.decision, decided.policy.as_str()));
        CountedLetter {
            counter: self.letters.letter(of),
            attempt: decided.map(|(failure, _)| failure.attempt.get()),
        }
    }

    /// A dead-letter queue has accepted a letter.
    pub(super) fn dead_lettered(&self, letter: &CountedLetter) {
        self.dead_lettered.add(1);
        letter.counter.increment(1);
        if let Some(attempt) = letter.attempt {
            self.measures.dead_lettered(attempt);
        }
    }

    /// How many messages stand behind those of their groups that wait.
    pub(crate) fn behind(&self, waits: impl Fn(&str) -> bool) -> usize {
        self.behind.count(waits)
    }

    /// How the queue is polled.
    pub(crate) fn polling(&self) -> &Arc<Polling> {
        &self.polling
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    fn requests_per_message(&self) -> f64 {
        let Requests {
            deletes,
            changes,
            sends,
            ..
        } = self.requests.as_ref();
        let requests = self.receive_requests.get() + deletes.get() + changes.get() + sends.get();
        let left = self.succeeded.get() + self.dead_lettered.get() + self.discarded.get();
        if left == 0 {
            return 0.0;
        }
        requests as f64 / left as f64
    }
}
