//! The machine's clocks, and one that moves with tokio's.

use backstop_core::failure::Timestamp;

pub use backstop_core::clock::{instant, now};

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
