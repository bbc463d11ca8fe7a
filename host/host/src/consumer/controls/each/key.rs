//! One key of a queue's messages: its attempts in hand, those that wait for their turn, and those that are held back.

use std::collections::VecDeque;
use std::time::Duration;

use backstop_core::rate::Rate;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::pace::Pace;
use super::Turn;

/// The time for which messages wait in memory rather than invisible in the queue.
const AHEAD: Duration = Duration::from_secs(2);

/// The time after which messages that were brought back are not expected any more.
const COMING: Duration = Duration::from_secs(5);

/// The limits of every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer::controls) struct Limits {
    pub(in crate::consumer::controls) rate: Option<Rate>,
    pub(in crate::consumer::controls) max_in_flight: Option<usize>,
}

/// What is known of a key.
pub(super) struct Key {
    /// Turns that were given and are not over.
    pub(super) in_hand: usize,
    /// Those of them whose attempts have not begun.
    pub(super) early: usize,
    /// Messages that wait for a turn.
    pub(super) waiting: VecDeque<oneshot::Sender<Turn>>,
    pace: Option<Pace>,
    /// Messages that are held back, as they were counted last.
    pub(super) held: usize,
    /// Messages that were brought back and have not come yet.
    coming: usize,
    coming_until: Instant,
    ended: Ended,
}

/// How many messages of a key that are held back have their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Now.
    pub(super) at_once: usize,
    /// A moment later: they wait in memory.
    pub(super) soon: usize,
}

/// How many attempts have ended in this second and in the one before.
#[derive(Debug)]
struct Ended {
    second: Instant,
    now: usize,
    before: usize,
}

impl Key {
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        Self {
            in_hand: 0,
            early: 0,
            waiting: VecDeque::new(),
            pace: limits.rate.map(|rate| Pace::new(rate, now)),
            held: 0,
            coming: 0,
            coming_until: now,
            ended: Ended {
                second: now,
                now: 0,
                before: 0,
            },
        }
    }

    /// Takes over other limits. Nothing is saved up for another rate.
    pub(super) fn set(&mut self, limits: Limits, now: Instant) {
        if self.pace.as_ref().map(Pace::rate) != limits.rate {
            self.pace = limits.rate.map(|rate| Pace::empty(rate, now));
        }
    }

    /// Whether messages wait for their turn.
    pub(super) fn is_limited(&self) -> bool {
        self.in_memory() + self.held > 0
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let is_full = self.pace.as_ref().is_none_or(|pace| pace.is_full(now));
        self.in_hand == 0 && self.waiting.is_empty() && self.held == 0 && is_full
    }

    /// Whether another turn may be given.
    pub(super) fn has_place(&self, limits: Limits) -> bool {
        limits.max_in_flight.is_none_or(|most| self.in_hand < most)
    }

    /// Whether an attempt may begin at once.
    pub(super) fn is_free(&self, limits: Limits, now: Instant) -> bool {
        let has_token = self.pace.as_ref().is_none_or(|pace| pace.tokens(now) > 0);
        self.waiting.is_empty() && self.has_place(limits) && has_token
    }

    /// Takes a turn. Returns when its attempt begins.
    pub(super) fn take(&mut self, now: Instant) -> Instant {
        self.in_hand += 1;
        self.early += 1;
        self.pace.as_mut().map_or(now, |pace| pace.reserve(now))
    }

    /// A turn is over.
    pub(super) fn end(&mut self, has_begun: bool, now: Instant) {
        self.in_hand = self.in_hand.saturating_sub(1);
        if has_begun {
            self.ended.add(now);
        } else {
            self.early = self.early.saturating_sub(1);
        }
    }

    /// The messages of this key in memory whose attempts have not begun.
    pub(super) fn in_memory(&self) -> usize {
        self.early + self.waiting.len()
    }

    /// How many messages may wait in memory: as many as have their turn soon, and its share at most.
    pub(super) fn most_in_memory(&self, limits: Limits, share: usize, now: Instant) -> usize {
        let by_rate = limits.rate.map(|rate| within(rate, AHEAD));
        let by_number = limits.max_in_flight;
        let by_number = by_number.map(|_| 2 * self.ended.last(now));
        let soon = by_rate.into_iter().chain(by_number);
        soon.fold(share, usize::min)
    }

    /// How many messages that are held back have their turn.
    pub(super) fn wanted(&self, limits: Limits, share: usize, now: Instant) -> Wanted {
        let free = limits
            .max_in_flight
            .map(|most| most.saturating_sub(self.in_hand));
        let tokens = self.pace.as_ref().map(|pace| pace.tokens(now));
        // Without limits, all of them.
        let free = free.into_iter().chain(tokens).min().unwrap_or(usize::MAX);
        let expected = self.in_memory() + self.coming(now);
        let soon = self.most_in_memory(limits, share, now);
        Wanted {
            at_once: free.saturating_sub(expected),
            soon: soon.saturating_sub(expected.saturating_sub(free)),
        }
    }

    fn coming(&self, now: Instant) -> usize {
        if now < self.coming_until {
            self.coming
        } else {
            0
        }
    }

    /// So many messages are held back, and so many of them were brought back now.
    pub(super) fn brought(&mut self, held: usize, brought: usize, now: Instant) {
        self.held = held.saturating_sub(brought);
        if brought > 0 {
            self.coming = self.coming(now) + brought;
            self.coming_until = now + COMING;
        }
    }

    /// A message has come.
    pub(super) fn came(&mut self) {
        self.coming = self.coming.saturating_sub(1);
    }
}

impl Ended {
    fn turn(&self, now: Instant) -> (usize, usize) {
        match now.saturating_duration_since(self.second).as_secs() {
            0 => (self.now, self.before),
            1 => (0, self.now),
            _ => (0, 0),
        }
    }

    fn add(&mut self, now: Instant) {
        let (count, before) = self.turn(now);
        let whole = now.saturating_duration_since(self.second).as_secs();
        *self = Self {
            second: self.second + Duration::from_secs(whole),
            now: count + 1,
            before,
        };
    }

    /// Those of the last second, or of this one if they are more.
    fn last(&self, now: Instant) -> usize {
        let (count, before) = self.turn(now);
        count.max(before)
    }
}

/// The messages of a rate in a time.
fn within(rate: Rate, time: Duration) -> usize {
    let messages = time.as_nanos() / rate.interval().as_nanos().max(1);
    usize::try_from(messages).unwrap_or(usize::MAX)
}
