//! What a call remembers from its first failure on.

use std::time::Instant;

use backstop_core::decision::Decision;
use backstop_core::failure::{Error, Milliseconds};

use crate::breaker::Pass;
use crate::budget::Reservation;
use crate::refusal::Refusal;

/// What a call remembers from its first failure on. A call that succeeds at once has none.
pub(crate) struct Remembered {
    pub(crate) id: String,
    /// When the first attempt failed.
    pub(crate) first_failed: Instant,
    /// When the last attempt failed.
    pub(crate) failed_at: Instant,
    pub(crate) previous_delay: Option<Milliseconds>,
    /// The last failure.
    pub(crate) description: Error,
    /// The decision on the last failure.
    pub(crate) decision: Option<Decision>,
    /// What the next attempt took out of the budget.
    pub(crate) reservation: Option<Reservation>,
    /// What the breaker gave to the failed attempt, until the policy has decided about it.
    pub(crate) pass: Option<Pass>,
    /// Why the breaker allows no further attempt.
    pub(crate) refusal: Option<Refusal>,
}

impl Remembered {
    /// The state of a call with this id after its first failure, now.
    pub(crate) fn new(id: String, now: Instant) -> Self {
        Self {
            id,
            first_failed: now,
            failed_at: now,
            previous_delay: None,
            description: Error::default(),
            decision: None,
            reservation: None,
            pass: None,
            refusal: None,
        }
    }
}
