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
pub(crate) fn system() -> SystemTime {
    SystemTime::now()
}

/// A point from which to measure how long something took.
pub fn instant() -> Instant {
    Instant::now()
}

/// The time of day, moved on by tokio's clock: a test that pauses that one pauses this one too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: tokio::time::Instant,
    at: Timestamp,
}

impl Clock {
    /// A clock that is right now.
    pub fn start() -> Self {
        Self {
            started: tokio::time::Instant::now(),
            at: now(),
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        self.at.plus(self.started.elapsed())
    }
}
