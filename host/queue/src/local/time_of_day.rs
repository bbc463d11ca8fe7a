//! The time of day at a queue in memory.

use backstop_core::clock;
use backstop_core::failure::Timestamp;

/// The time of day, moved on by tokio's clock: a test that pauses that one pauses this one too.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeOfDay {
    started: tokio::time::Instant,
    at: Timestamp,
}

impl TimeOfDay {
    /// This one now, or else the right one.
    pub(super) fn start(at: Option<Timestamp>) -> Self {
        Self {
            started: tokio::time::Instant::now(),
            at: at.unwrap_or_else(clock::now),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.at.plus(self.started.elapsed())
    }
}
