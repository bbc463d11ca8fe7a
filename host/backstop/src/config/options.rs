//! How a consumer receives messages and ends.

use std::path::PathBuf;
use std::time::Duration;

use crate::hold::HoldMode;
use crate::queue::VisibilityTimeout;

/// How a consumer receives messages and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many messages are in flight at once, from the receive to the end of their handling.
    pub max_in_flight: usize,
    /// The most polls at the same time. Fewer are made if the queue has less work.
    pub max_polls: usize,
    /// The bytes of the messages in flight, bodies and attributes together, at which the consumer stops to receive. Receives under way may exceed it.
    pub max_bytes_in_flight: usize,
    /// How failed messages are held until their next attempt.
    pub hold: HoldMode,
    /// The file with the keys by which the hosts of a fleet know the envelopes of messages that were sent again. Without one, each host knows its own only.
    pub envelope_key_file: Option<PathBuf>,
    /// How long a message stays invisible; a heartbeat renews it at each third of that. The queue's own by default.
    pub visibility_timeout: Option<VisibilityTimeout>,
    /// The longest duration of one attempt.
    pub attempt_timeout: Duration,
    /// How long a request waits at most for others to be batched with it: a third of the visibility timeout or less.
    pub linger: Duration,
    /// How long attempts may go on, and the last poll may take, after the consumer was stopped. No poll is longer, unless it is less than a second, so a short grace time costs more requests.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_in_flight: 100,
            max_polls: 10,
            max_bytes_in_flight: 256 << 20,
            hold: HoldMode::Auto,
            envelope_key_file: None,
            visibility_timeout: None,
            attempt_timeout: Duration::from_secs(15 * 60),
            linger: Duration::from_millis(100),
            grace: Duration::from_secs(25),
        }
    }
}

/// The longest `linger` for a visibility timeout: a third. An outcome that waited longer than a heartbeat could arrive when the message is visible again.
pub(crate) fn longest_linger(visibility: VisibilityTimeout) -> Duration {
    visibility.as_duration() / 3
}
