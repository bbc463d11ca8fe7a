//! Limits what is in flight, from the receive to the end of the handling: messages, and the bytes of their bodies and attributes.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, Semaphore};
use tokio::time::timeout;

/// How long to wait for the rest of a room once there is a part of it.
const REST_WAIT: Duration = Duration::from_millis(50);

/// A budget of messages and of bytes. One receive may overdraw that of bytes, because the size of messages is unknown until they are received.
#[derive(Debug)]
pub(crate) struct Budget {
    messages: Semaphore,
    /// The most messages in flight.
    most: AtomicUsize,
    /// How many of those in flight are too many, since the number was made smaller. They end without making room.
    too_many: AtomicUsize,
    /// Messages that were received.
    in_hand: AtomicUsize,
    /// One room is collected at a time: if messages are scarce, one full poll is cheaper than several small ones.
    collecting: Mutex<()>,
    most_bytes: usize,
    bytes: AtomicUsize,
    freed: Notify,
}

/// Room taken from the budget, returned when dropped.
#[derive(Debug)]
pub(super) struct Room {
    budget: Arc<Budget>,
    messages: usize,
    bytes: usize,
    /// Whether it holds messages that were received.
    is_in_hand: bool,
}

impl Budget {
    /// A budget of this many messages and bytes.
    pub(crate) fn new(messages: usize, bytes: usize) -> Arc<Self> {
        let messages = messages.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            messages: Semaphore::new(messages),
            most: AtomicUsize::new(messages),
            too_many: AtomicUsize::new(0),
            in_hand: AtomicUsize::new(0),
            collecting: Mutex::default(),
            most_bytes: bytes,
            bytes: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    /// Room for up to this many messages, once there are bytes left: for at least one, and for more if it becomes free soon. It holds this many bytes.
    pub(super) async fn room(self: &Arc<Self>, most: usize, bytes: usize) -> Option<Room> {
        let _collecting = self.collecting.lock().await;
        self.has_bytes_left().await;
        let mut permits = self.messages.acquire().await.ok()?;
        let rest = u32::try_from(most.saturating_sub(1)).unwrap_or_default();
        match timeout(REST_WAIT, self.messages.acquire_many(rest)).await {
            Ok(Ok(others)) => permits.merge(others),
            // Fewer suffice if the others are in use for longer.
            Ok(Err(_)) | Err(_) => {
                while permits.num_permits() < most
                    && let Ok(another) = self.messages.try_acquire()
                {
                    permits.merge(another);
                }
            }
        }
        let messages = permits.num_permits();
        permits.forget();
        self.bytes.fetch_add(bytes, SeqCst);
        Some(Room {
            budget: Arc::clone(self),
            messages,
            bytes,
            is_in_hand: false,
        })
    }

    /// The messages for which there is room, or that have it.
    pub(super) fn in_flight(&self) -> usize {
        let taken = self.most() + self.too_many.load(SeqCst);
        taken.saturating_sub(self.messages.available_permits())
    }

    /// The messages that were received.
    pub(super) fn in_hand(&self) -> usize {
        self.in_hand.load(SeqCst)
    }

    /// The most messages.
    pub(super) fn most(&self) -> usize {
        self.most.load(SeqCst)
    }

    /// Changes the most messages. Those in flight go on.
    pub(super) fn set_most(&self, messages: usize) {
        let messages = messages.clamp(1, Semaphore::MAX_PERMITS);
        let before = self.most.swap(messages, SeqCst);
        let fewer = before.saturating_sub(messages);
        let in_use = fewer - self.messages.forget_permits(fewer);
        self.too_many.fetch_add(in_use, SeqCst);
        self.end(messages.saturating_sub(before));
    }

    /// Makes room for this many messages, unless there are too many.
    fn end(&self, messages: usize) {
        let mut ended = 0;
        if self.too_many.load(SeqCst) > 0 {
            let fewer = |too_many: usize| Some(too_many.saturating_sub(messages));
            let before = self.too_many.fetch_update(SeqCst, SeqCst, fewer);
            ended = before.unwrap_or_else(|before| before).min(messages);
        }
        self.messages.add_permits(messages - ended);
    }

    /// Whether there is room for this many messages.
    pub(super) fn has_room(&self, messages: usize) -> bool {
        self.messages.available_permits() >= messages && self.has_bytes()
    }

    /// Waits until there are bytes left.
    async fn has_bytes_left(&self) {
        while !self.has_bytes() {
            let freed = self.freed.notified();
            if self.has_bytes() {
                return;
            }
            freed.await;
        }
    }

    fn has_bytes(&self) -> bool {
        self.bytes.load(SeqCst) < self.most_bytes
    }

    fn free(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, SeqCst);
        if before >= self.most_bytes {
            self.freed.notify_waiters();
        }
    }
}

impl Room {
    /// For how many messages it is.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Holds this many bytes from now on.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.budget.bytes.fetch_add(bytes, SeqCst);
        self.budget.free(mem::replace(&mut self.bytes, bytes));
    }

    /// Takes a part for this many messages that were received, of these bytes, or what is left of them.
    pub(super) fn split(&mut self, messages: usize, bytes: usize) -> Self {
        let (messages, bytes) = (messages.min(self.messages), bytes.min(self.bytes));
        self.messages -= messages;
        self.bytes -= bytes;
        self.budget.in_hand.fetch_add(messages, SeqCst);
        Self {
            budget: Arc::clone(&self.budget),
            messages,
            bytes,
            is_in_hand: true,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.free(self.bytes);
        if self.is_in_hand {
            self.budget.in_hand.fetch_sub(self.messages, SeqCst);
        }
        self.budget.end(self.messages);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    async fn room(budget: &Arc<Budget>, messages: usize, bytes: usize) -> Room {
        budget.room(messages, bytes).await.unwrap()
    }

    #[tokio::test]
    async fn there_is_room_until_the_bytes_are_used_and_again_when_some_are_returned() {
        let budget = Budget::new(10, 100);
        let first = room(&budget, 1, 60).await;
        assert!(budget.has_room(9));
        // More than the budget: received messages have to be held.
        let second = room(&budget, 1, 60).await;
        assert!(!budget.has_room(1));
        let mut waiting = Box::pin(budget.room(1, 0));
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        assert!((&mut waiting).now_or_never().is_some());
        drop(second);
        assert_eq!(budget.bytes.load(SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_room_is_smaller_if_the_rest_does_not_become_free_soon() {
        let budget = Budget::new(12, 100);
        let first = room(&budget, 10, 0).await;
        assert_eq!(first.messages(), 10);
        let second = room(&budget, 10, 0).await;
        assert_eq!(second.messages(), 2);
        drop(first);
        assert_eq!(room(&budget, 10, 0).await.messages(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_smaller_limit_takes_room_from_what_ends_and_a_larger_one_gives_it_back() {
        let budget = Budget::new(10, 100);
        let mut first = room(&budget, 8, 0).await;
        let parts = [first.split(5, 0), first.split(3, 0)];
        assert_eq!(
            (budget.in_hand(), budget.in_flight(), budget.most()),
            (8, 8, 10)
        );
        budget.set_most(4);
        assert_eq!((budget.in_flight(), budget.most()), (8, 4));
        let [five, three] = parts;
        drop(three);
        assert_eq!((budget.in_hand(), budget.in_flight()), (5, 5));
        assert!(!budget.has_room(1), "five are one too many");
        drop(five);
        assert_eq!((budget.in_hand(), budget.in_flight()), (0, 0));
        assert_eq!(room(&budget, 10, 0).await.messages(), 4);
        let all = room(&budget, 10, 0).await;
        budget.set_most(1);
        budget.set_most(6);
        assert_eq!((all.messages(), budget.in_flight()), (4, 4));
        assert!(budget.has_room(2) && !budget.has_room(3));
        drop(all);
        assert!(budget.has_room(6) && !budget.has_room(7));
    }

    #[tokio::test]
    async fn the_parts_of_a_room_are_returned_one_by_one_and_what_is_left_of_it() {
        let budget = Budget::new(10, 100);
        let mut whole = room(&budget, 10, 110).await;
        let parts = [whole.split(3, 20), whole.split(5, 60)];
        assert!(!budget.has_room(0), "110 bytes are held");
        drop(whole);
        assert_eq!(budget.bytes.load(SeqCst), 80);
        assert!(budget.has_room(2) && !budget.has_room(3));
        drop(parts);
        assert!(budget.has_room(10));
    }
}
