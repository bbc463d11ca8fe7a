//! Limits the bytes of the messages in flight: bodies and attributes, from the receive to the end of the handling.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use tokio::sync::Notify;

/// A budget of bytes. One receive may overdraw it, because the size of messages is unknown until they are received.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    held: AtomicUsize,
    freed: Notify,
}

/// Bytes taken from the budget, returned when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    /// Waits until there are bytes left.
    pub(super) async fn has_bytes_left(&self) {
        while !self.is_left() {
            let freed = self.freed.notified();
            if self.is_left() {
                return;
            }
            freed.await;
        }
    }

    /// Whether there are bytes left.
    pub(super) fn is_left(&self) -> bool {
        self.held.load(SeqCst) < self.most
    }

    /// Takes these bytes from the budget.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize) -> Share {
        self.held.fetch_add(bytes, SeqCst);
        Share {
            budget: Arc::clone(self),
            bytes,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let budget = &self.budget;
        let held = budget.held.fetch_sub(self.bytes, SeqCst);
        if held >= budget.most {
            budget.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn bytes_are_left_until_the_budget_is_used_and_again_when_some_are_returned() {
        let budget = Budget::new(100);
        let first = budget.hold(60);
        assert!(budget.has_bytes_left().now_or_never().is_some());
        // More than the budget: received messages have to be held.
        let second = budget.hold(60);
        let mut waiting = Box::pin(budget.has_bytes_left());
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        assert!((&mut waiting).now_or_never().is_some());
        drop(second);
        assert_eq!(budget.held.load(SeqCst), 0);
    }
}
