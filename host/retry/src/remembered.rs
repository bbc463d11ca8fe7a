//! What a call remembers from its first failure on.

use std::ops::{Deref, DerefMut};
use std::time::Instant;

use backstop_core::call::Failing;

use crate::breaker::Pass;
use crate::budget::Reservation;
use crate::refusal::Refusal;

/// What a call remembers from its first failure on: what the rules need, and what it holds of the guards.
pub(crate) struct Remembered {
    failing: Failing,
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
            failing: Failing::new(id, now),
            reservation: None,
            pass: None,
            refusal: None,
        }
    }

    /// What the error of a call that ends says.
    pub(crate) fn into_parts(self) -> (Failing, Option<Refusal>) {
        (self.failing, self.refusal)
    }
}

impl Deref for Remembered {
    type Target = Failing;

    fn deref(&self) -> &Failing {
        &self.failing
    }
}

impl DerefMut for Remembered {
    fn deref_mut(&mut self) -> &mut Failing {
        &mut self.failing
    }
}
