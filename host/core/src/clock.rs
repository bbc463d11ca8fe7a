//! The only module that reads the machine's clocks. Other code receives the time as a value.
#![expect(clippy::disallowed_methods, reason = "the lint points to this module")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::failure::Timestamp;

/// The time of day; 1970 if the clock is set to an earlier time.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The time of day in the type of file timestamps.
pub fn system() -> SystemTime {
    SystemTime::now()
}

/// A point in time to measure a duration from.
pub fn instant() -> Instant {
    Instant::now()
}
