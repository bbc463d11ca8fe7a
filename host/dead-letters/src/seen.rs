//! What a reading has seen, and why it has ended.

use std::time::Duration;

/// Why a reading has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No further letter of those that were there could be received.
    Empty,
    /// Many letters arrive, and although fewer than the queue reported were seen, none of those that were there came any more: there may be more.
    Later,
    /// It holds the most letters that it may.
    Most,
    /// The letters that were seen first become visible again.
    Time,
    /// It was stopped.
    Stopped,
    /// Another receive could move letters out of the queue, by its redrive policy.
    Receives,
}

/// What a reading has seen: the letters that were in the queue when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The number of different letters.
    pub letters: usize,
    /// How many the queue reported at the start, approximately.
    pub about: Option<usize>,
    /// How many others held at the start or at the end, whichever is more, so that they could not be seen.
    pub held_by_others: usize,
    /// Letters that arrived after the start, as far as they were received. They are not among [`Seen::letters`].
    pub later: usize,
    /// Whether it is a FIFO queue. Of these, SQS shows at most the first letters of each group, while the ones that were received before are held.
    pub fifo: bool,
    /// Why it ended.
    pub end: End,
    /// Letters that could not be made visible at once: they are when their visibility timeout ends.
    pub hidden: usize,
    /// Until when these are invisible at most, from now.
    pub hidden_for: Duration,
}

impl Seen {
    /// Whether others held letters that were there, so that they could not be seen.
    pub fn lacks_letters_of_others(&self) -> bool {
        let is_behind = self.about.is_none_or(|about| self.letters < about);
        self.end == End::Empty && self.held_by_others > 0 && is_behind
    }
}
