//! What the consumer remembers of a message between its receives, since SQS does not: the last delay, and the receives that were no attempts.
//!
//! In memory, and bounded: after a restart the attempt is the plain receive count, and the delay before is unknown.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::failure::Milliseconds;
use crate::queue::Message;

/// As many messages as SQS has in flight at most.
const MESSAGES: NonZeroUsize = NonZeroUsize::new(120_000).expect("not zero");

#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    previous_delay: Option<Milliseconds>,
    unattempted: u32,
}

/// By message id.
#[derive(Debug)]
pub(super) struct History(Mutex<LruCache<String, Remembered>>);

impl Default for History {
    fn default() -> Self {
        // Unbounded at first: a bounded cache would take its memory at once.
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl History {
    /// The message waits for this long before its next attempt.
    pub(super) fn waits(&self, message: &Message, delay: Milliseconds) {
        self.change(message, |remembered| {
            remembered.previous_delay = Some(delay)
        });
    }

    /// The message was received and not attempted.
    pub(super) fn handed_back(&self, message: &Message) {
        self.change(message, |remembered| remembered.unattempted += 1);
    }

    /// The message has left the queue.
    pub(super) fn forget(&self, message: &Message) {
        self.lock().pop(&message.id);
    }

    pub(super) fn previous_delay(&self, message: &Message) -> Option<Milliseconds> {
        self.lock()
            .peek(&message.id)
            .and_then(|remembered| remembered.previous_delay)
    }

    pub(super) fn unattempted(&self, message: &Message) -> u32 {
        self.lock()
            .peek(&message.id)
            .map_or(0, |remembered| remembered.unattempted)
    }

    fn change(&self, message: &Message, change: impl FnOnce(&mut Remembered)) {
        let mut messages = self.lock();
        change(messages.get_or_insert_mut(message.id.clone(), Remembered::default));
        if messages.len() > MESSAGES.get() {
            messages.pop_lru();
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
