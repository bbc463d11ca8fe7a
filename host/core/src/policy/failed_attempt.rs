//! What the built-in policies read of a [`Failure`].

use backstop_backoff::FailedAttempt;

use crate::failure::{Failure, MESSAGE_BYTES};
use crate::text::head;

impl<'a> From<&'a Failure> for FailedAttempt<'a> {
    /// What the built-in policies read of a failure, with its code [within bounds](crate::failure::Error::within_bounds).
    fn from(failure: &'a Failure) -> Self {
        Self {
            code: head(&failure.error.code, MESSAGE_BYTES),
            status: failure.error.status,
            retry_after: failure.error.retry_after.map(|delay| delay.0),
            attempt: failure.attempt.get(),
            age: failure.age.0,
            previous_delay: failure.previous_delay.map(|delay| delay.0),
            random: failure.random,
        }
    }
}
