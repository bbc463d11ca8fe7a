//! What a breaker reports about itself.

use std::time::Instant;

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Everything passes.
    Closed,
    /// Nothing passes.
    Open {
        /// When the next probe may begin. It may have passed, if nobody has come since.
        until: Instant,
    },
    /// Nothing passes, and a probe is under way.
    Probing,
    /// So many attempts may be in flight.
    Growing {
        /// At least one.
        limit: u32,
    },
}

/// What a breaker reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Its state.
    pub state: State,
    /// Since when. `None` if it has always been closed.
    pub since: Option<Instant>,
    /// The attempts in flight, also those that began before it opened.
    pub in_flight: u32,
    /// The failures since the last success.
    pub failed: u32,
    /// The pauses since a probe succeeded: they grow with their number.
    pub pauses: u32,
}
