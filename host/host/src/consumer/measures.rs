//! Measures attempts: how long they take by their outcome, and which of them is the last of a message. The handles are made once, so that an attempt pays for two numbers only.

use std::time::Duration;

use metrics::{Counter, Histogram};

use super::attempt::Outcome;
use crate::telemetry;

/// The measurements of one queue.
pub(super) struct Measures {
    success: Histogram,
    failure: Histogram,
    unavailable: Histogram,
    interrupted: Histogram,
    succeeded: Histogram,
    dead_lettered: Histogram,
}

/// How a dead letter is counted, once its queue has accepted it.
pub(super) struct CountedLetter {
    pub(super) counter: Counter,
    /// The attempt that failed.
    pub(super) attempt: Option<u32>,
}

backstop_core::shown!(Measures);

impl Measures {
    pub(super) fn of(queue: &telemetry::Queue) -> Self {
        Self {
            success: queue.handler_seconds("success"),
            failure: queue.handler_seconds("failure"),
            unavailable: queue.handler_seconds("unavailable"),
            interrupted: queue.handler_seconds("interrupted"),
            succeeded: queue.attempts("succeeded"),
            dead_lettered: queue.attempts("dead-lettered"),
        }
    }

    /// An attempt ended.
    pub(super) fn attempted(&self, outcome: &Outcome, took: Duration) {
        let times = match outcome {
            Outcome::Succeeded => &self.success,
            Outcome::Failed(_) => &self.failure,
            Outcome::Unavailable(_) => &self.unavailable,
            Outcome::Interrupted => &self.interrupted,
        };
        times.record(took);
    }

    /// A message has left the queue after this attempt, which succeeded.
    pub(super) fn succeeded(&self, attempt: u32) {
        self.succeeded.record(attempt);
    }

    /// A message has left the queue after this attempt, which failed.
    pub(super) fn dead_lettered(&self, attempt: u32) {
        self.dead_lettered.record(attempt);
    }
}
