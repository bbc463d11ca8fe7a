//! The formulas of the built-in policies: the delay after a failed attempt, before [`Settings::delay`] respects `Retry-After`.

use crate::{FailedAttempt, Milliseconds, Settings, jitter};

/// `full-jitter`: `U(floor, e(n))`, where `e(n) = min(cap, base * 2^(n-1))`.
///
/// ```
/// use backstop_backoff::{FailedAttempt, Settings, formula};
/// let third = FailedAttempt {
///     code: "HTTP 503", status: Some(503), retry_after: None,
///     attempt: 3, age: 0, previous_delay: None, random: 0.5,
/// };
/// assert_eq!(formula::full_jitter(&Settings::default(), &third), 2_000);
/// ```
pub fn full_jitter(settings: &Settings, failed: &FailedAttempt<'_>) -> Milliseconds {
    let ceiling = jitter::exponential(settings.base, settings.cap, failed.attempt);
    jitter::full(settings.floor, ceiling, failed.random)
}

/// `equal-jitter`: `max(floor, e(n)/2 + U(0, e(n)/2))`, where `e(n) = min(cap, base * 2^(n-1))`.
pub fn equal_jitter(settings: &Settings, failed: &FailedAttempt<'_>) -> Milliseconds {
    let ceiling = jitter::exponential(settings.base, settings.cap, failed.attempt);
    jitter::equal(ceiling, failed.random).max(settings.floor)
}

/// `linear`: `max(floor, min(cap, base * n))`.
pub fn linear(settings: &Settings, failed: &FailedAttempt<'_>) -> Milliseconds {
    jitter::linear(settings.base, settings.cap, failed.attempt).max(settings.floor)
}

/// `decorrelated-jitter`: `max(floor, min(cap, U(base, 3 * previous)))`. `previous` is `base` at first. If the host does not know it, it is the mean delay before this attempt: after a restart the delays go on growing.
pub fn decorrelated_jitter(settings: &Settings, failed: &FailedAttempt<'_>) -> Milliseconds {
    let mean = || jitter::mean_decorrelated(settings.base, settings.cap, failed.attempt);
    let previous = failed.previous_delay.unwrap_or_else(mean);
    jitter::decorrelated(settings.base, settings.cap, previous, failed.random).max(settings.floor)
}
