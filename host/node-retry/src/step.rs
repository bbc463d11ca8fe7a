//! What JavaScript passes to a call, and what the call returns as the next step.

use std::time::{Duration, Instant};

use backstop_core::call::End;
use backstop_core::decision::Decision;
use backstop_core::failure::{Failure, Timestamp};

/// A point in time, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

/// What one call sets for itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// From the beginning of the call.
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) min_attempt_time: Duration,
    /// The last attempt may end after the deadline.
    pub(crate) lets_end: bool,
    pub(crate) id: Option<String>,
    pub(crate) attributes: Vec<(String, String)>,
}

/// What is next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Make this attempt, which is cut short after a time.
    Attempt {
        number: u32,
        cut_after: Option<Duration>,
    },
    /// Evaluate the policy, which is cut short after a time.
    Evaluate {
        failure: Box<Failure>,
        cut_after: Option<Duration>,
    },
    /// Wait this long for the next attempt.
    Wait(Duration),
    /// Wait for a place of the bulkhead, no longer than this.
    Enter { cut_after: Option<Duration> },
    /// The call has succeeded.
    Succeeded,
    /// The call has ended without success.
    Ended(End),
}

/// A failed attempt and what was decided.
pub(crate) struct Decided {
    pub(crate) failure: Failure,
    pub(crate) decision: Decision,
}
