//! What a reading has seen, and why it has ended.

use std::time::Duration;

/// Why a reading has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No further letter could be received.
    Empty,
    /// It holds the most letters that it may.
    Most,
    /// The letters that were seen first become visible again.
    Time,
    /// It was stopped.
    Stopped,
    /// Another receive could move letters out of the queue, by its redrive policy.
    Receives,
}

/// What a reading has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The number of different letters.
    pub letters: usize,
    /// How many the queue reported at the start, approximately.
    pub about: Option<usize>,
    /// How many others held at the start, so that they could not be seen.
    pub held_by_others: usize,
    /// Whether it is a FIFO queue. Of these, SQS shows at most the first letters of each group, while the ones that were received before are held.
    pub fifo: bool,
    /// Why it ended.
    pub end: End,
    /// Letters that could not be made visible at once: they are when their visibility timeout ends.
    pub hidden: usize,
    /// Until when these are invisible at most, from now.
    pub hidden_for: Duration,
}
