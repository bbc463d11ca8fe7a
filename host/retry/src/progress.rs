//! What a call remembers from its first failure on.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::Instant;

use backstop_core::decision::Decision;
use backstop_core::failure::{self, Error, Failure, Milliseconds};

use crate::budget::Reservation;
use crate::retrier::Inner;

/// What a call remembers from its first failure on. A call that succeeds at once has none.
pub(crate) struct Progress {
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
}

impl Progress {
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
        }
    }

    /// The failed attempt as a policy receives it, within the bounds of the contract.
    pub(crate) fn failure(
        &mut self,
        retrier: &Inner,
        attempt: NonZeroU32,
        error: Error,
        attributes: &[(String, String)],
    ) -> Failure {
        self.failed_at = retrier.clock.now();
        let age = self.failed_at.saturating_duration_since(self.first_failed);
        let failure = Failure {
            message_id: self.id.clone(),
            source: retrier.source.clone(),
            attempt,
            age: Milliseconds::from_duration(age),
            failed_at: retrier.clock.time(),
            previous_delay: self.previous_delay,
            random: failure::random(&self.id, attempt),
            error,
            attributes: attributes.to_vec(),
        };
        let mut failure = match failure.within_bounds() {
            Cow::Borrowed(_) => None,
            Cow::Owned(bounded) => Some(bounded),
        }
        .unwrap_or(failure);
        self.description = failure.error.clone();
        let asked = failure.error.retry_after;
        failure.error.retry_after = asked.map(|it| it.min(retrier.max_retry_after));
        failure
    }
}
