//! Letters of the set that others hold at the moment, such as another listing: a step waits for them, within a bound.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop::queue::QueueError;
use tokio::time::Instant;

use super::hold::Hold;
use super::progress::Phase;
use super::work::Work;
use crate::requests::with_retries;

/// The time between two looks at the queue's numbers.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is known of the letters that others hold.
#[derive(Debug, Default)]
pub(super) struct Others(Mutex<Known>);

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// When the queue was asked last.
    asked: Option<Instant>,
    /// How many letters others held then.
    held: usize,
    /// Since when nothing of the set has come.
    since: Option<Instant>,
}

/// What a step does that receives nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody has asked the queue.
    Unknown,
    /// Others hold letters, which may come back.
    Wait,
    /// Others hold letters still, and there is no more time.
    Held,
    /// Nobody holds any.
    Gone,
}

impl Others {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A letter of the set has come.
    pub(super) fn forget(&self) {
        *self.known() = Known::default();
    }

    /// What to do if nothing comes.
    pub(super) fn verdict(&self, wait: Duration, now: Instant) -> Verdict {
        let known = *self.known();
        match known.since {
            None => Verdict::Unknown,
            Some(_) if known.held == 0 => Verdict::Gone,
            Some(since) if now < since + wait => Verdict::Wait,
            Some(_) => Verdict::Held,
        }
    }

    /// Asks the queue how many letters are in flight, once in a while: those that the run does not hold itself are held by others.
    pub(super) async fn ask(&self, work: &Work, hold: &Hold) -> Result<(), QueueError> {
        let now = Instant::now();
        {
            let mut known = self.known();
            if known.asked.is_some_and(|asked| now < asked + INTERVAL) {
                return Ok(());
            }
            // The other workers need not ask.
            known.asked = Some(now);
        }
        let queue = &work.parts.queue;
        let in_flight = with_retries(|| queue.describe()).await?.in_flight;
        let held = in_flight.unwrap_or(0).saturating_sub(hold.len());
        {
            let mut known = self.known();
            known.held = held;
            known.since.get_or_insert(now);
        }
        if held > 0 {
            let phase = Phase::WaitingForOthers(held);
            work.parts.progress.change(|it| it.phase = phase);
        }
        Ok(())
    }
}
