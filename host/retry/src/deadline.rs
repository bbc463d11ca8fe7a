//! When the caller needs the result.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backstop_core::failure::Timestamp;

use crate::clock::Clock;

/// When the caller needs the result: a point in time, or a duration from the start of the call.
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
///
/// use backstop_retry::Deadline;
///
/// let in_two_seconds = Deadline::from(Duration::from_secs(2));
/// let at_an_instant = Deadline::from(Instant::now() + Duration::from_secs(2));
/// // The type of `lambda_runtime::Context::deadline()`. The function needs a moment to report the error.
/// let of_an_invocation = Deadline::from(SystemTime::now() + Duration::from_secs(30))
///     .earlier_by(Duration::from_millis(500));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: At,
    margin: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// From the start of the call.
    After(Duration),
    Instant(Instant),
    Time(Timestamp),
}

impl Deadline {
    /// The same deadline, this much earlier.
    #[must_use]
    pub fn earlier_by(self, margin: Duration) -> Self {
        Self {
            margin: self.margin.saturating_add(margin),
            ..self
        }
    }

    /// The deadline of a call that begins now. `None` if it is too far away to matter.
    pub(crate) fn resolve(self, clock: &dyn Clock, now: Instant) -> Option<Instant> {
        let at = match self.at {
            At::After(duration) => now.checked_add(duration)?,
            At::Instant(at) => at,
            At::Time(time) => {
                let today = clock.time();
                match time.since(today) {
                    // It has passed.
                    Duration::ZERO => now,
                    left => now.checked_add(left)?,
                }
            }
        };
        // Before the machine's start: it has passed.
        Some(at.checked_sub(self.margin).unwrap_or(now))
    }

    fn at(at: At) -> Self {
        Self {
            at,
            margin: Duration::ZERO,
        }
    }
}

/// From the start of the call.
impl From<Duration> for Deadline {
    fn from(duration: Duration) -> Self {
        Self::at(At::After(duration))
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self::at(At::Instant(instant))
    }
}

impl From<tokio::time::Instant> for Deadline {
    fn from(instant: tokio::time::Instant) -> Self {
        Self::at(At::Instant(instant.into_std()))
    }
}

/// The type of `lambda_runtime::Context::deadline()`.
impl From<SystemTime> for Deadline {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let milliseconds = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self::at(At::Time(Timestamp(milliseconds)))
    }
}

/// Milliseconds since 1970, as in the header `lambda-runtime-deadline-ms`.
impl From<Timestamp> for Deadline {
    fn from(time: Timestamp) -> Self {
        Self::at(At::Time(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestClock;

    #[test]
    fn a_deadline_is_a_duration_an_instant_or_a_time_of_day() {
        let clock = TestClock::new();
        clock.advance(Duration::from_secs(60));
        let now = clock.now();
        let second = Duration::from_secs(1);
        let in_a_second = UNIX_EPOCH + Duration::from_millis(clock.time().0) + second;
        for deadline in [
            Deadline::from(second),
            Deadline::from(now + second),
            Deadline::from(tokio::time::Instant::from_std(now + second)),
            Deadline::from(in_a_second),
            Deadline::from(clock.time().plus(second)),
        ] {
            assert_eq!(deadline.resolve(&clock, now), Some(now + second));
            let earlier = deadline.earlier_by(second / 2).earlier_by(second / 4);
            assert_eq!(earlier.resolve(&clock, now), Some(now + second / 4));
        }
    }

    #[test]
    fn a_deadline_may_have_passed_or_be_out_of_reach() {
        let clock = TestClock::new();
        let now = clock.now();
        for passed in [
            Deadline::from(Duration::ZERO),
            Deadline::from(UNIX_EPOCH),
            Deadline::from(UNIX_EPOCH - Duration::from_secs(1)),
            Deadline::from(Duration::ZERO).earlier_by(Duration::MAX),
            Deadline::from(now),
        ] {
            assert!(passed.resolve(&clock, now).is_some_and(|at| at <= now));
        }
        assert_eq!(Deadline::from(Duration::MAX).resolve(&clock, now), None);
    }
}
