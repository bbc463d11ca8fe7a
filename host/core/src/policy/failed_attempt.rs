//! What the built-in policies read of a [`Failure`].

use backstop_backoff::FailedAttempt;

use crate::failure::{Failure, MESSAGE_BYTES};

impl<'a> From<&'a Failure> for FailedAttempt<'a> {
    /// What the built-in policies read of a failure, with its code [within bounds](crate::failure::Error::within_bounds).
    fn from(failure: &'a Failure) -> Self {
        let code = failure.error.code.as_str();
        let end = code.floor_char_boundary(MESSAGE_BYTES);
        Self {
            code: code.get(..end).unwrap_or(code),
            status: failure.error.status,
            retry_after: failure.error.retry_after.map(|delay| delay.0),
            attempt: failure.attempt.get(),
            age: failure.age.0,
            previous_delay: failure.previous_delay.map(|delay| delay.0),
            random: failure.random,
        }
    }
}
