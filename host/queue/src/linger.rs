//! How long a batch that is not full waits for more entries.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long an entry waits for others to share its batch: for this time at most, and no longer than a caller may add one.
#[derive(Debug, Clone)]
pub struct Linger {
    longest: Duration,
    callers: Option<Arc<Callers>>,
}

impl From<Duration> for Linger {
    /// For callers whose number is not known.
    fn from(longest: Duration) -> Self {
        Self {
            longest,
            callers: None,
        }
    }
}

impl Linger {
    /// For these callers, if they are known.
    pub fn of(callers: Option<Arc<Callers>>, longest: Duration) -> Self {
        Self { longest, callers }
    }

    /// The longest wait.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// How long a batch waits that is begun now.
    pub(super) fn begin(&self) -> Until {
        Until {
            at: Instant::now() + self.longest,
            pauses: self.callers.as_ref().map_or(0, |it| it.0.borrow().pauses),
        }
    }

    /// The open batch had `before` entries, and has `after` now. A caller whose entry is in it cannot add another one.
    pub(super) fn changed(&self, before: usize, after: usize) {
        if let Some(callers) = &self.callers {
            callers.change(before.cast_signed() - after.cast_signed());
        }
    }

    /// Returns when a batch has waited for so long.
    pub(super) async fn ended(&self, until: Until) {
        match &self.callers {
            None => sleep_until(until.at).await,
            Some(callers) => {
                let _ = timeout_at(until.at, callers.pause_after(until)).await;
            }
        }
    }

    /// Whether a batch has waited for so long.
    pub(super) fn is_over(&self, until: Until) -> bool {
        let paused = |callers: &Arc<Callers>| callers.0.borrow().paused_since(until);
        until.at <= Instant::now() || self.callers.as_ref().is_some_and(paused)
    }
}

/// How long a batch waits: until this time, or until the next pause of the callers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    at: Instant,
    pauses: u64,
}

/// Those who submit entries, each one after another: the lanes of a FIFO queue, which share their batches. The next message of a group is handled only after the delete of the one before it.
#[derive(Debug, Default)]
pub struct Callers(watch::Sender<AtWork>);

#[derive(Debug, Default)]
struct AtWork {
    /// The callers without an entry in an open batch. An entry of somebody who is no caller makes it too small until its batch is sent, even negative.
    number: isize,
    /// How often there were none. Several batchers share the callers: when one of them sends its batch, some are at work again, but the batches of the others have to be sent, too.
    pauses: u64,
}

impl AtWork {
    fn paused_since(&self, until: Until) -> bool {
        self.pauses != until.pauses
    }
}

/// A caller; it has ended when this is dropped.
#[derive(Debug)]
pub struct Caller(Arc<Callers>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

impl Callers {
    /// Counts so many callers, all of them before the first one begins.
    pub fn begin(self: &Arc<Self>, count: usize) -> Vec<Caller> {
        self.change(count.cast_signed());
        (0..count).map(|_| Caller(Arc::clone(self))).collect()
    }

    async fn pause_after(&self, until: Until) {
        // It is not closed: `self` is the sender.
        let mut at_work = self.0.subscribe();
        let _ = at_work.wait_for(|it| it.paused_since(until)).await;
    }

    fn change(&self, more: isize) {
        self.0.send_if_modified(|at_work| {
            at_work.number += more;
            let is_pause = at_work.number <= 0;
            at_work.pauses += u64::from(is_pause);
            is_pause
        });
    }
}
