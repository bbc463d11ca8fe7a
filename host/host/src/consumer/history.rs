//! Remembers facts about a message between its receives, because SQS does not: the last delay, the failed attempts, and the receives without an attempt.
//!
//! In memory and bounded. After a restart the previous delay is unknown, and on a FIFO queue the number of earlier attempts too. The receives without an attempt are [kept](super::returned).

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use backstop_core::lock::lock;
use tokio::time::Instant;

use super::recent::{Key, Recent};
use super::returned::{self, Files, Receives};
use crate::failure::Milliseconds;
use crate::queue::{Message, MessageEnvelope};

/// The most messages that SQS has in flight, each once for itself and once for its copies.
const MESSAGES: usize = 240_000;

#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    /// The number of the last failed attempt of this process, and the delay after it.
    last: u32,
    delay: Option<Milliseconds>,
    /// When that attempt failed.
    failed_at: Option<Instant>,
    /// Failed attempts of this process.
    failed: u32,
    /// Receives by this process without an attempt, since the message was last sent.
    unattempted: u32,
    /// The attempts in the envelope with which this process last sent the message again.
    sent_again: u32,
    /// A hash of the body and the attributes of a message without an envelope; zero if it is unknown.
    content: u64,
}

/// What is remembered of each message, by a hash of its id; of the copies that are sent again, by a hash of id and content. The id of a message is the one that its queue gave it, or that of an envelope which a key verifies together with the content of the message: no stranger can choose it.
#[derive(Debug)]
pub(super) struct History {
    fifo: bool,
    messages: Mutex<Recent<Remembered>>,
    /// Whether nothing is remembered. As long as that is so, nobody takes the lock.
    is_empty: AtomicBool,
    hashes: RandomState,
    /// What the next host of the queue has to know, and where it finds it.
    kept: Option<(Files, Mutex<Receives>)>,
}

impl History {
    /// The history of a FIFO queue or of a standard queue.
    pub(super) fn of(fifo: bool) -> Self {
        Self {
            fifo,
            messages: Mutex::new(Recent::of(MESSAGES)),
            is_empty: AtomicBool::new(true),
            hashes: RandomState::new(),
            kept: None,
        }
    }

    /// With what the hosts before it have written in these files, which are taken over. FIFO queues need none of it.
    pub(super) fn kept_in(self, files: Option<Files>) -> Self {
        let Some(files) = files.filter(|_| !self.fifo) else {
            return self;
        };
        let receives = files.take();
        let mut messages = self.lock();
        for (id, receives) in &receives {
            let remembered = Remembered {
                unattempted: *receives,
                ..Remembered::default()
            };
            messages.get_or_insert(self.key(id), remembered);
        }
        self.is_empty.store(messages.is_empty(), Ordering::Release);
        drop(messages);
        Self {
            kept: Some((files, Mutex::new(receives))),
            ..self
        }
    }

    /// Writes what the next host of the queue has to know.
    pub(super) fn keep(&self) {
        if let Some((files, receives)) = &self.kept {
            files.write(&lock(receives));
        }
    }

    /// The number of the attempt that follows this receive.
    ///
    /// On a standard queue that is the receive count, which survives a restart, less the receives of this process without an attempt. The receives of a message that was sent again count from the attempts in its envelope.
    ///
    /// On a FIFO queue it is one more than the attempts of this process. A message behind a failing one of its group is received just as often, and other processes do not report how many of those receives were attempts. A message must not be given up for attempts that were never made.
    pub(super) fn attempt(&self, message: &Message) -> NonZeroU32 {
        let remembered = self.remembered(message);
        if self.fifo {
            return NonZeroU32::MIN.saturating_add(remembered.failed);
        }
        // SQS's count is approximate. An attempt that began before another one of this message failed does not follow that.
        let follows = remembered.failed_at.is_none_or(|at| at <= message.received);
        let known = NonZeroU32::MIN.saturating_add(if follows { remembered.last } else { 0 });
        NonZeroU32::new(received(message, &remembered))
            .map_or(known, |inferred| inferred.max(known))
    }

    /// The attempts that are known to have failed: by this process, or by the message's envelope. Receives by other processes may have been none.
    pub(super) fn known_attempts(&self, message: &Message) -> u32 {
        let remembered = self.remembered(message);
        let carried = message.envelope.as_ref().map_or(0, |it| it.attempts);
        let own = if self.fifo {
            remembered.failed
        } else {
            remembered.last
        };
        own.max(carried)
    }

    /// Whether another copy of the message made this attempt already: a host stopped between sending the message again and deleting it.
    pub(super) fn is_duplicate(&self, message: &Message) -> bool {
        if message.envelope.is_none() {
            return false;
        }
        let remembered = self.remembered(message);
        received(message, &remembered) <= remembered.last
    }

    /// Whether this process has sent the message again since, so that this one is left over.
    pub(super) fn is_left_over(&self, message: &Message) -> bool {
        let carried = message.envelope.as_ref().map_or(0, |it| it.attempts);
        carried < self.remembered(message).sent_again
    }

    /// This attempt failed.
    pub(super) fn failed(&self, message: &Message, attempt: NonZeroU32) {
        self.change_all(message, |remembered| {
            remembered.failed += 1;
            remembered.last = remembered.last.max(attempt.get());
            remembered.delay = None;
            remembered.failed_at = Some(Instant::now());
        });
    }

    /// The message is delayed for this long before its next attempt.
    pub(super) fn waits(&self, message: &Message, delay: Milliseconds) {
        self.change_all(message, |remembered| remembered.delay = Some(delay));
    }

    /// The message was sent again with this envelope.
    pub(super) fn sent_again(&self, message: &Message, envelope: &MessageEnvelope) {
        self.change_all(message, |remembered| {
            remembered.sent_again = envelope.attempts;
            remembered.unattempted = 0;
        });
    }

    /// The message was received before its next attempt was due, or while its work was in progress elsewhere.
    pub(super) fn skipped(&self, message: &Message) {
        self.received_without_an_attempt(message);
    }

    /// A message that was [skipped](Self::skipped) is attempted after all.
    pub(super) fn attempted(&self, message: &Message) {
        self.change(message, |remembered| {
            remembered.unattempted = remembered.unattempted.saturating_sub(1);
        });
        if let Some((_, receives)) = self.kept.as_ref().filter(|_| message.envelope.is_none()) {
            let mut receives = lock(receives);
            returned::take_back(&mut receives, &message.id);
        }
    }

    /// The message was returned without an attempt.
    pub(super) fn handed_back(&self, message: &Message) {
        self.received_without_an_attempt(message);
    }

    /// The next host of the queue has to know that, too.
    fn received_without_an_attempt(&self, message: &Message) {
        self.change(message, |remembered| remembered.unattempted += 1);
        if let Some((_, receives)) = self.kept.as_ref().filter(|_| message.envelope.is_none()) {
            let mut receives = lock(receives);
            returned::count(&mut receives, &message.id);
        }
    }

    /// The message has left the queue.
    pub(super) fn forget(&self, message: &Message) {
        if self.is_empty() {
            return;
        }
        if let Some((_, receives)) = &self.kept {
            let mut receives = lock(receives);
            receives.remove(&message.id);
        }
        let mut messages = self.lock();
        let forgotten = match message.envelope {
            None => messages.remove(self.key(&message.id)),
            Some(_) => messages.remove(self.key_of_copies(&message.id, self.content(message))),
        };
        if message.envelope.is_none()
            && let Some(forgotten) = forgotten.filter(|it| it.content != 0)
        {
            messages.remove(self.key_of_copies(&message.id, forgotten.content));
        }
        self.is_empty.store(messages.is_empty(), Ordering::Release);
    }

    /// The delay before this attempt, if it is known: from this process, or from the envelope. If another process made the last attempt, what this one remembers is out of date.
    pub(super) fn previous_delay(
        &self,
        message: &Message,
        attempt: NonZeroU32,
    ) -> Option<Milliseconds> {
        let (remembered, last) = (self.remembered(message), attempt.get() - 1);
        let envelope = message.envelope.as_ref();
        let carried = envelope.filter(|it| last > 0 && it.attempts == last);
        let carried = carried.map(|it| it.delay);
        let own = remembered.delay.filter(|_| remembered.last == last);
        own.or(carried)
    }

    fn remembered(&self, message: &Message) -> Remembered {
        if self.is_empty() {
            return Remembered::default();
        }
        let id = self.key(&message.id);
        if message.envelope.is_none() {
            return self.lock().get(id).copied().unwrap_or_default();
        }
        let content = self.content(message);
        let copies = self.key_of_copies(&message.id, content);
        let messages = self.lock();
        let remembered = messages.get(copies).copied();
        remembered.unwrap_or_else(|| first_copy(messages.get(id), content))
    }

    /// Changes what is remembered of this copy of a message.
    fn change(&self, message: &Message, change: impl Fn(&mut Remembered)) {
        let id = self.key(&message.id);
        let content = message.envelope.as_ref().map(|_| self.content(message));
        let mut messages = self.lock();
        self.is_empty.store(false, Ordering::Release);
        match content {
            None => change(messages.get_or_insert(id, Remembered::default())),
            Some(content) => {
                let first = first_copy(messages.get(id), content);
                let copies = self.key_of_copies(&message.id, content);
                change(messages.get_or_insert(copies, first));
            }
        }
    }

    /// Changes what is remembered of all copies of a message.
    fn change_all(&self, message: &Message, change: impl Fn(&mut Remembered)) {
        if message.envelope.is_some() {
            return self.change(message, change);
        }
        let content = match self.remembered(message).content {
            0 => self.content(message),
            known => known,
        };
        self.change(message, |remembered| {
            remembered.content = content;
            change(remembered);
        });
        let copies = self.key_of_copies(&message.id, content);
        if let Some(remembered) = self.lock().get_mut(copies) {
            change(remembered);
        }
    }

    fn key(&self, id: &str) -> Key {
        self.hashes.hash_one((id, None::<u64>))
    }

    /// The key of the copies of a message that are sent again.
    fn key_of_copies(&self, id: &str, content: u64) -> Key {
        self.hashes.hash_one((id, Some(content)))
    }

    fn content(&self, message: &Message) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        message.body.hash(&mut hasher);
        for (name, value) in &message.attributes {
            (name, value.to_text()).hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Recent<Remembered>> {
        lock(&self.messages)
    }
}

/// What is remembered of the copies of a message that were not received yet: what is remembered of the message, if it has their content.
fn first_copy(message: Option<&Remembered>, content: u64) -> Remembered {
    let message = message.filter(|it| it.content == content);
    message.map_or_else(Remembered::default, |it| Remembered {
        unattempted: 0,
        content: 0,
        ..*it
    })
}

/// The receives that were attempts or are one, as far as this process knows.
fn received(message: &Message, remembered: &Remembered) -> u32 {
    let receives = message.receive_count.get();
    receives.saturating_sub(remembered.unattempted)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::ordinary_message;

    fn received(times: u32) -> Message {
        Message {
            received: Instant::now(),
            receive_count: NonZeroU32::new(times).unwrap(),
            ..ordinary_message()
        }
    }

    fn attempts(fifo: bool, happened: &[(u32, &str)]) -> Vec<u32> {
        let history = History::of(fifo);
        let attempt = |(times, outcome): &(u32, &str)| {
            let message = received(*times);
            let attempt = history.attempt(&message).get();
            match *outcome {
                "failed" => history.failed(&message, history.attempt(&message)),
                _ => history.handed_back(&message),
            }
            attempt
        };
        happened.iter().map(attempt).collect()
    }

    #[test]
    fn a_standard_queue_counts_receives_less_those_without_an_attempt() {
        let happened = [(4, "failed"), (5, "back"), (6, "failed"), (9, "failed")];
        assert_eq!(attempts(false, &happened), [4, 5, 5, 8]);
        // SQS's count is approximate, but the attempt never falls below the attempts made.
        assert_eq!(attempts(false, &[(1, "failed"), (1, "failed")]), [1, 2]);
    }

    /// A host that was frozen: the message was received again before its first attempt ended.
    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ends_after_a_later_one_does_not_follow_it() {
        let history = History::of(false);
        let older = received(1);
        tokio::time::advance(Duration::from_secs(60)).await;
        let later = received(2);
        history.failed(&later, history.attempt(&later));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(history.attempt(&older).get(), 1);
        history.failed(&older, history.attempt(&older));
        // The next one follows both.
        assert_eq!(history.attempt(&received(3)).get(), 3);
    }

    #[test]
    fn known_attempts_are_those_of_this_process_or_of_the_envelope() {
        for fifo in [false, true] {
            let history = History::of(fifo);
            // Four receives by others, which may have been no attempts.
            let message = received(5);
            assert_eq!(history.known_attempts(&message), 0);
            history.skipped(&message);
            assert_eq!(history.known_attempts(&message), 0);
            history.failed(&message, history.attempt(&message));
            let known = if fifo { 1 } else { 4 };
            assert_eq!(history.known_attempts(&message), known);
        }
    }

    #[test]
    fn a_fifo_queue_counts_the_attempts_of_this_process() {
        let happened = [(7, "back"), (8, "failed"), (9, "back"), (12, "failed")];
        assert_eq!(attempts(true, &happened), [1, 1, 2, 2]);
    }
}
