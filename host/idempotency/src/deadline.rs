//! When the work has to be done.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop_core::failure::Timestamp;

/// When the work has to be done: a duration from the start of the call, or a time of day such as `lambda_runtime::Context::deadline()`.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use backstop_idempotency::Deadline;
///
/// let in_two_minutes = Deadline::from(Duration::from_secs(120));
/// let of_an_invocation = Deadline::from(SystemTime::now() + Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(At);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    After(Duration),
    Time(Timestamp),
}

impl Deadline {
    /// The deadline of a call that begins now.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self.0 {
            At::After(duration) => now.plus(duration),
            At::Time(time) => time,
        }
    }
}

/// From the start of the call.
impl From<Duration> for Deadline {
    fn from(duration: Duration) -> Self {
        Self(At::After(duration))
    }
}

/// The type of `lambda_runtime::Context::deadline()`.
impl From<SystemTime> for Deadline {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let milliseconds = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self(At::Time(Timestamp(milliseconds)))
    }
}

/// Milliseconds since 1970, as in the header `lambda-runtime-deadline-ms`.
impl From<Timestamp> for Deadline {
    fn from(time: Timestamp) -> Self {
        Self(At::Time(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_duration_or_a_time_of_day() {
        let now = Timestamp(5_000);
        for deadline in [
            Deadline::from(Duration::from_secs(2)),
            Deadline::from(UNIX_EPOCH + Duration::from_secs(7)),
            Deadline::from(Timestamp(7_000)),
        ] {
            assert_eq!(deadline.resolve(now), Timestamp(7_000));
        }
    }
}
