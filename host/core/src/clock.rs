//! The one place where the machine's clocks are read. Everything else is handed the time as a value.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the module that the lint sends everybody to"
)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::failure::Timestamp;

/// The time of day; 1970 where the clock is set before it.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The time of day as files are marked with it.
pub fn system() -> SystemTime {
    SystemTime::now()
}

/// A point from which to measure how long something took.
pub fn instant() -> Instant {
    Instant::now()
}
