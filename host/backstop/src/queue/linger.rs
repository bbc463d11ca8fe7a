//! How long a batch that is not full waits for more entries.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long an entry waits for others to share its batch: for this time at most, and no longer than a caller may add one.
#[derive(Debug, Clone)]
pub(crate) struct Linger {
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
    pub(crate) fn of(callers: Option<Arc<Callers>>, longest: Duration) -> Self {
        Self { longest, callers }
    }

    /// The longest wait.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// The open batch had `before` entries, and has `after` now. A caller whose entry is in it cannot add another one.
    pub(super) fn changed(&self, before: usize, after: usize) {
        if let Some(callers) = &self.callers {
            callers.change(before.cast_signed() - after.cast_signed());
        }
    }

    /// Returns at this time, or when no caller may add an entry.
    pub(super) async fn ended(&self, until: Instant) {
        match &self.callers {
            None => sleep_until(until).await,
            Some(callers) => {
                let _ = timeout_at(until, callers.none_at_work()).await;
            }
        }
    }

    /// Whether a batch that lingers until this time is sent now.
    pub(super) fn is_over(&self, until: Instant) -> bool {
        let none_at_work = |callers: &Arc<Callers>| *callers.0.borrow() <= 0;
        until <= Instant::now() || self.callers.as_ref().is_some_and(none_at_work)
    }
}

/// Those who submit entries, each one after another: the lanes of a FIFO queue. The next message of a group is handled only after the delete of the one before it.
///
/// The number of those who may add an entry to an open batch: the callers at work, and those whose request is under way. An entry of somebody who is no caller makes it too small for a moment, even negative.
#[derive(Debug, Default)]
pub(crate) struct Callers(watch::Sender<isize>);

/// A caller; it has ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Caller(Arc<Callers>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

impl Callers {
    /// Counts so many callers, all of them before the first one begins.
    pub(crate) fn begin(self: &Arc<Self>, count: usize) -> Vec<Caller> {
        self.change(count.cast_signed());
        (0..count).map(|_| Caller(Arc::clone(self))).collect()
    }

    async fn none_at_work(&self) {
        // It is not closed: `self` is the sender.
        let _ = self.0.subscribe().wait_for(|at_work| *at_work <= 0).await;
    }

    fn change(&self, more: isize) {
        self.0.send_if_modified(|at_work| {
            *at_work += more;
            *at_work <= 0
        });
    }
}
