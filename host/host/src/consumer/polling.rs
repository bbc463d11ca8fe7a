//! Whether a queue is polled, for the host's readiness.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;

/// How many failed polls in a row make a queue count as not polled. A single one may be a reset connection, and the next poll of an idle queue ends only after 20 s.
const FAILED_POLLS: u32 = 3;

/// How a queue is polled now.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    pollers: AtomicUsize,
    /// Failed polls since the last successful one.
    failures: AtomicU32,
    /// Why the worker is unavailable, while the gate is closed.
    closed_by: Mutex<Option<String>>,
}

/// A running poller; it has ended when this is dropped.
#[derive(Debug)]
pub(super) struct Poller(Arc<Polling>);

impl Drop for Poller {
    fn drop(&mut self) {
        self.0.pollers.fetch_sub(1, Relaxed);
    }
}

impl Polling {
    /// Counts a poller until the result is dropped.
    pub(super) fn poller(self: &Arc<Self>) -> Poller {
        self.pollers.fetch_add(1, Relaxed);
        Poller(Arc::clone(self))
    }

    /// A poll was successful. Returns the failed ones before it.
    pub(super) fn succeeded(&self) -> u32 {
        self.failures.swap(0, Relaxed)
    }

    /// A poll failed. Returns the failed ones in a row.
    pub(super) fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// The gate is closed for this reason, or not closed.
    pub(super) fn closed_by(&self, reason: Option<String>) {
        *lock(&self.closed_by) = reason;
    }

    /// Why the queue counts as not polled, as the rest of a sentence about it.
    pub(crate) fn problem(&self) -> Option<String> {
        let failures = self.failures.load(Relaxed);
        if let Some(reason) = &*lock(&self.closed_by) {
            return Some(format!(
                "is not polled, because its worker is unavailable ({reason})"
            ));
        }
        match self.pollers.load(Relaxed) {
            0 => Some("is not polled".to_owned()),
            _ if failures >= FAILED_POLLS => {
                Some(format!("can't be polled: {failures} polls in a row failed"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_polled_while_a_poller_runs_and_its_polls_do_not_keep_failing() {
        let polling = Arc::new(Polling::default());
        assert_eq!(polling.problem().as_deref(), Some("is not polled"));
        let poller = polling.poller();
        assert_eq!(polling.problem(), None);
        polling.failed();
        polling.failed();
        assert_eq!(polling.problem(), None);
        assert_eq!(polling.failed(), 3);
        assert!(polling.problem().unwrap().contains("3 polls in a row"));
        assert_eq!(polling.succeeded(), 3);
        assert_eq!(polling.problem(), None);
        drop(poller);
        assert!(polling.problem().is_some());
    }
}
