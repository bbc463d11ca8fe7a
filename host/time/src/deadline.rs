//! When a result is needed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backstop_core::failure::Timestamp;

use crate::clock::Clock;

/// When a result is needed: a point in time, or a duration from the start of the call.
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
///
/// use backstop_time::Deadline;
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

    /// The time that a call which begins now has. Zero once the deadline has passed.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        let left = match self.at {
            At::After(duration) => duration,
            At::Instant(at) => at.saturating_duration_since(clock.now()),
            At::Time(time) => time.since(clock.time()),
        };
        left.saturating_sub(self.margin)
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
            assert_eq!(deadline.left(&clock), second);
            let earlier = deadline.earlier_by(second / 2).earlier_by(second / 4);
            assert_eq!(earlier.left(&clock), second / 4);
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
            assert_eq!(passed.left(&clock), Duration::ZERO);
        }
        assert_eq!(Deadline::from(Duration::MAX).left(&clock), Duration::MAX);
    }
}
