//! What the built-in policies read of a failure, as plain values.

use crate::Milliseconds;

/// One failed attempt, without what the built-in policies do not read. The fields have the meaning of their namesakes in `wit/policy.wit`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailedAttempt<'a> {
    /// The error's code.
    pub code: &'a str,
    /// The error's HTTP status.
    pub status: Option<u16>,
    /// The delay that the failing service asked for.
    pub retry_after: Option<Milliseconds>,
    /// The number of attempts so far, including this one.
    pub attempt: u32,
    /// The time from when the message was first sent to this failure.
    pub age: Milliseconds,
    /// The delay before this attempt.
    pub previous_delay: Option<Milliseconds>,
    /// In [0, 1).
    pub random: f64,
}
