//! How many bytes of messages a consumer holds at once: bodies and attributes, from their receive to the end of their handling.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// A budget that may be overdrawn by one receive, since nobody knows how large messages are before they are there.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    held: Mutex<usize>,
    freed: Notify,
}

/// So many bytes of the budget, given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Returns when less than the budget is held.
    pub(super) async fn has_left(&self) {
        loop {
            let freed = self.freed.notified();
            if self.held() < self.most {
                return;
            }
            freed.await;
        }
    }

    /// Counts these bytes as held.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize) -> Share {
        self.change(|held| held.saturating_add(bytes));
        Share {
            budget: Arc::clone(self),
            bytes,
        }
    }

    fn held(&self) -> usize {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = change(*held);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.change(|held| held.saturating_sub(self.bytes));
        self.budget.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn there_is_something_left_until_as_much_is_held_and_again_when_some_is_given_back() {
        let budget = Budget::new(100);
        let first = budget.hold(60);
        assert!(budget.has_left().now_or_never().is_some());
        // More than there is: messages that came are there.
        let second = budget.hold(60);
        let mut waiting = Box::pin(budget.has_left());
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        assert!((&mut waiting).now_or_never().is_some());
        drop(second);
        assert_eq!(budget.held(), 0);
    }
}
