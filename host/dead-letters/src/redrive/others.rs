//! Letters of the set that a step can't see at the moment: others hold them, such as another listing, or they are behind letters that arrived later. A step waits for the first and receives the second, both within a bound.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_queue::{Queue, QueueError};
use tokio::time::Instant;

use super::hold::Hold;
use crate::requests::read;

/// The time between two looks at the queue's numbers.
const INTERVAL: Duration = Duration::from_secs(1);

/// How late the numbers of SQS may be: what a listing has held until a moment ago may be in none of them.
const LATENESS: Duration = Duration::from_secs(60);

/// A step receives so many times the visible letters before it believes that none of them is of the set: SQS keeps no order, and more may arrive.
const TIMES: usize = 2;

/// What is known of the letters that a step can't see.
#[derive(Debug, Default)]
pub(super) struct Others(Mutex<Known>);

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// When the queue was asked last.
    asked: Option<Instant>,
    /// Since when nothing of the set has come.
    since: Option<Instant>,
    /// Since when others have held none.
    free: Option<Instant>,
    /// How many letters there are still to receive before all that were visible are seen.
    behind: Option<usize>,
}

/// What a step does that receives nothing more of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nobody has asked the queue, or more letters are visible: it receives.
    Receive,
    /// Others hold letters, or may hold some: these may come back.
    Wait,
    /// Others hold letters still, and there is no more time.
    Held,
    /// Nobody holds any.
    Gone,
}

impl Known {
    /// Waits so long for letters that others hold, and so long until it believes that they hold none.
    fn next(&self, wait: Duration, lateness: Duration, now: Instant) -> Next {
        let Some(since) = self.since else {
            return Next::Receive;
        };
        if self.behind != Some(0) {
            return Next::Receive;
        }
        match self.free {
            Some(free) if now >= free + lateness => Next::Gone,
            Some(_) => Next::Wait,
            None if now < since + wait => Next::Wait,
            None => Next::Held,
        }
    }

    /// Takes the queue's numbers.
    fn count(&mut self, visible: usize, held: usize, now: Instant) {
        self.since.get_or_insert(now);
        self.behind.get_or_insert(visible.saturating_mul(TIMES));
        self.free = match held {
            0 => self.free.or(Some(now)),
            _ => None,
        };
    }
}

impl Others {
    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.0)
    }

    /// A step begins or goes on: it holds nothing, and has to receive again what it leaves.
    pub(super) fn begin(&self) {
        let mut known = self.known();
        (known.asked, known.behind) = (None, None);
    }

    /// A letter of the set has come.
    pub(super) fn forget(&self) {
        *self.known() = Known::default();
    }

    /// So many letters have come that are not of the set. None at all: a long poll asks all servers of SQS, so nothing is visible.
    pub(super) fn passed(&self, letters: usize) {
        let mut known = self.known();
        known.behind = known.behind.map(|behind| match letters {
            0 => 0,
            letters => behind.saturating_sub(letters),
        });
    }

    /// What to do if nothing of the set comes. If letters are missing, the numbers may be late.
    pub(super) fn next(&self, wait: Duration, may_miss: bool, now: Instant) -> Next {
        let lateness = if may_miss {
            wait.min(LATENESS)
        } else {
            Duration::ZERO
        };
        self.known().next(wait, lateness, now)
    }

    /// Asks the queue for its numbers, once in a while. Letters in flight that the run does not hold itself are held by others: returns how many.
    pub(super) async fn ask(
        &self,
        queue: &Arc<dyn Queue>,
        hold: &Hold,
    ) -> Result<Option<usize>, QueueError> {
        let now = Instant::now();
        {
            let mut known = self.known();
            if known.asked.is_some_and(|asked| now < asked + INTERVAL) {
                return Ok(None);
            }
            // The other workers need not ask.
            known.asked = Some(now);
        }
        let numbers = read(|| queue.describe()).await?;
        let held = numbers.in_flight.unwrap_or(0).saturating_sub(hold.len());
        self.known().count(numbers.visible.unwrap_or(0), held, now);
        Ok(Some(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(120);

    /// What to do so many seconds after the start.
    fn next(known: &Known, start: Instant, seconds: u64) -> Next {
        known.next(WAIT, LATENESS, start + Duration::from_secs(seconds))
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn letters_are_gone_only_if_nobody_has_held_any_for_as_long_as_the_numbers_may_be_late() {
        let (mut known, start) = (Known::default(), Instant::now());
        assert_eq!(next(&known, start, 0), Next::Receive);
        // SQS may not have counted yet what a listing holds.
        known.count(0, 0, start);
        assert_eq!(next(&known, start, 59), Next::Wait);
        known.count(0, 3, after(start, 59));
        assert_eq!(next(&known, start, 60), Next::Wait);
        known.count(0, 0, after(start, 70));
        assert_eq!(next(&known, start, 129), Next::Wait);
        assert_eq!(next(&known, start, 130), Next::Gone);
        // If none is missing, the numbers are believed at once.
        let none = Duration::ZERO;
        assert_eq!(known.next(WAIT, none, after(start, 70)), Next::Gone);
    }

    #[test]
    fn letters_that_others_hold_are_waited_for_within_the_bound() {
        let (mut known, start) = (Known::default(), Instant::now());
        known.count(0, 3, start);
        assert_eq!(next(&known, start, 119), Next::Wait);
        assert_eq!(next(&known, start, 120), Next::Held);
    }

    #[test]
    fn all_that_is_visible_is_received_before_the_rest_counts_as_gone() {
        let (others, start) = (Others::default(), Instant::now());
        others.known().count(100, 0, start);
        assert_eq!(next(&others.known(), start, 300), Next::Receive);
        // Letters that arrive meanwhile make it no longer.
        others.known().count(1_000, 0, after(start, 10));
        others.passed(199);
        assert_eq!(next(&others.known(), start, 300), Next::Receive);
        others.passed(1);
        assert_eq!(next(&others.known(), start, 300), Next::Gone);
        // A receive without any letter, and a letter of the set.
        others.forget();
        others.known().count(100, 0, start);
        others.passed(0);
        assert_eq!(next(&others.known(), start, 300), Next::Gone);
        // The next step has to receive again what this one has left.
        others.begin();
        assert_eq!(next(&others.known(), start, 300), Next::Receive);
        others.known().count(0, 0, after(start, 300));
        assert_eq!(next(&others.known(), start, 300), Next::Gone);
        others.forget();
        assert_eq!(next(&others.known(), start, 300), Next::Receive);
    }
}
