//! How a call waits for work in progress elsewhere.

use std::time::Duration;

use backstop_core::failure::Timestamp;

use crate::error::OnceError;

/// The first pause, and the longest one.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// What the last claim has of the time before the deadline, in milliseconds.
const LAST_CLAIM: u64 = 200;

/// The pauses of one call.
#[derive(Debug)]
pub(crate) struct Wait {
    /// `None` for a call that does not wait.
    until: Option<Timestamp>,
    step: Duration,
    has_begun: bool,
}

impl Wait {
    /// A wait with this bound, if there is one, and within the deadline.
    pub(crate) fn until(bound: Option<Timestamp>, deadline: Option<Timestamp>) -> Self {
        let last = deadline.map(|it| Timestamp(it.0.saturating_sub(LAST_CLAIM)));
        Self {
            until: bound.map(|bound| last.map_or(bound, |last| last.min(bound))),
            step: SHORTEST,
            has_begun: false,
        }
    }

    /// How long to pause before the next claim: the step, shortened by up to half of it, and not beyond the end of the owner's lease or of the wait. `None` if the call ends like this.
    ///
    /// A store that does not answer ends no wait that has begun.
    pub(crate) fn pause<T, E>(
        &mut self,
        ended: &Result<T, OnceError<E>>,
        now: Timestamp,
        random: f64,
    ) -> Option<Duration> {
        let left = self.until?.since(now);
        let lease = match ended {
            // A lease is over when its end has passed.
            Err(OnceError::InProgress { left }) => left.saturating_add(Duration::from_millis(1)),
            Err(OnceError::Store(_)) if self.has_begun => left,
            Ok(_) | Err(_) => return None,
        };
        if left.is_zero() {
            return None;
        }
        self.has_begun = true;
        let pause = self.step.mul_f64(1.0 - random / 2.0);
        self.step = self.step.mul_f64(1.5).min(LONGEST);
        Some(pause.min(lease).min(left))
    }
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
