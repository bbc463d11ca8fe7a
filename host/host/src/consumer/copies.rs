//! Recognises the copies that one send made: its answer was lost, so it was repeated.
//!
//! Each time that a message is sent again, its envelope is another one. So the copies of one send, and they alone, have the same envelope and the same content. SQS says when each of them was sent, which tells a copy from the same message that is received again. Only what this fleet has sent counts: an envelope that is not verified is nobody's copy.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use tokio::time::Instant;

use super::recent::{Key, Recent};
use crate::failure::Timestamp;
use crate::queue::Message;

/// The most copies that are remembered.
const MOST: usize = 60_000;

/// The longest time between two copies of one send, which is repeated for a minute, with the time that its last request may take. A message that was sent later is not a copy: SQS moved it to a dead-letter queue, say, and somebody moved it back.
const MOST_APART: Duration = Duration::from_secs(120);

/// How long a message that was held by visibility may take to be received again. It may not come: another host received it, or SQS moved it to a dead-letter queue.
const RETURN: Duration = Duration::from_secs(10);

/// What is known of the first copy of a send.
#[derive(Debug, Clone, Copy)]
struct First {
    /// When SQS got it, which tells it from its copies.
    sent: Timestamp,
    /// It waits in its queue until then. Else it is in hand, or done.
    held: Option<Instant>,
}

/// The messages that are in hand, held by visibility or done by this process, by envelope and content.
#[derive(Debug)]
pub(super) struct Copies {
    first: Mutex<Recent<First>>,
    hashes: RandomState,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            first: Mutex::new(Recent::of(MOST)),
            hashes: RandomState::new(),
        }
    }
}

impl Copies {
    /// Takes a message in hand. Returns whether another copy of the same send is in hand, held or done, so that this one may be deleted.
    pub(super) fn is_second(&self, message: &Message) -> bool {
        let Some(key) = self.key(message) else {
            return false;
        };
        let this = First {
            sent: message.kept_since,
            held: None,
        };
        let mut all = self.lock();
        let first = all.get_or_insert(key, this);
        let is_back = first.sent == this.sent;
        let is_overdue = first.held.is_some_and(|until| until <= Instant::now());
        if is_back || is_overdue {
            *first = this;
            return false;
        }
        apart(first.sent, this.sent) <= MOST_APART
    }

    /// The message waits in its queue, invisible for this long.
    pub(super) fn held(&self, message: &Message, invisible: Duration) {
        let Some(key) = self.key(message) else {
            return;
        };
        let mut all = self.lock();
        let first = all.get_mut(key);
        if let Some(first) = first.filter(|it| it.sent == message.kept_since) {
            first.held = Some(Instant::now() + invisible + RETURN);
        }
    }

    /// The message is no longer in hand, and it stays in its queue. If it is not [held](Self::held), it comes back at an unknown time: another copy may be attempted before it.
    pub(super) fn release(&self, message: &Message) {
        let Some(key) = self.key(message) else {
            return;
        };
        let mut all = self.lock();
        let is_it = |first: &First| first.sent == message.kept_since && first.held.is_none();
        if all.get(key).is_some_and(is_it) {
            all.remove(key);
        }
    }

    fn key(&self, message: &Message) -> Option<Key> {
        let envelope = message.envelope.as_ref().filter(|it| it.is_verified)?;
        let mut hasher = self.hashes.build_hasher();
        serde_json::to_string(envelope).ok()?.hash(&mut hasher);
        message.body.hash(&mut hasher);
        for (name, value) in &message.attributes {
            (name, value.to_text()).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    fn lock(&self) -> MutexGuard<'_, Recent<First>> {
        lock(&self.first)
    }
}

/// The time between two moments, whichever is the first.
fn apart(one: Timestamp, other: Timestamp) -> Duration {
    one.max(other).since(one.min(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Milliseconds;
    use crate::queue::ordinary_message;
    use crate::queue::{Attribute, MessageEnvelope};

    fn envelope() -> MessageEnvelope {
        MessageEnvelope {
            is_verified: true,
            other_id: None,
            id: "m-1".to_owned(),
            sent: Timestamp(1_000),
            first_received: Timestamp(2_000),
            sender: None,
            attempts: 2,
            delay: Milliseconds(5_000),
            due: Timestamp(9_000),
            hops: 0,
            policy: String::new(),
            code: String::new(),
            class: String::new(),
            failed: None,
            trace: None,
        }
    }

    fn message(sent: u64, envelope: Option<MessageEnvelope>) -> Message {
        Message {
            attributes: [("a".to_owned(), Attribute::number(1))].into(),
            kept_since: Timestamp(sent),
            envelope: envelope.map(Box::new),
            ..ordinary_message()
        }
    }

    /// Two copies of one send.
    fn two() -> (Message, Message) {
        let copy = |sent| message(sent, Some(envelope()));
        (copy(5_000), copy(7_000))
    }

    #[test]
    fn a_second_copy_of_a_send_is_recognised_while_the_first_is_in_hand_and_after_it() {
        let copies = Copies::default();
        let (first, second) = two();
        assert!(!copies.is_second(&first));
        assert!(copies.is_second(&second));
        // The same one that is received again, since it could not be deleted, say.
        assert!(!copies.is_second(&first));
        assert!(copies.is_second(&second));
    }

    #[test]
    fn a_copy_is_not_deleted_if_the_first_one_was_not_done() {
        let copies = Copies::default();
        let (first, second) = two();
        assert!(!copies.is_second(&first));
        copies.release(&first);
        assert!(!copies.is_second(&second));
        // What is not in hand releases and holds nothing.
        copies.release(&first);
        copies.held(&first, Duration::ZERO);
        assert!(copies.is_second(&first));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_copy_is_recognised_as_long_as_the_first_is_held() {
        let copies = Copies::default();
        let (first, second) = two();
        let hour = Duration::from_secs(3_600);
        for _ in 0..2 {
            assert!(!copies.is_second(&first));
            copies.held(&first, hour);
            copies.release(&first);
            tokio::time::advance(hour).await;
            assert!(copies.is_second(&second));
        }
        // It did not come back: perhaps it is no longer in its queue.
        tokio::time::advance(RETURN).await;
        assert!(!copies.is_second(&second));
        assert!(copies.is_second(&first));
    }

    #[test]
    fn a_message_that_was_sent_much_later_is_no_copy() {
        let copies = Copies::default();
        let (first, _) = two();
        assert!(!copies.is_second(&first));
        for (later, is_copy) in [(1, true), (120_000, true), (120_001, false)] {
            let redriven = message(5_000 + later, Some(envelope()));
            assert_eq!(copies.is_second(&redriven), is_copy, "{later}");
        }
        assert!(!copies.is_second(&first));
    }

    #[test]
    fn another_send_another_content_and_a_message_without_an_envelope_are_no_copies() {
        let copies = Copies::default();
        assert!(!copies.is_second(&message(5_000, Some(envelope()))));
        let others = [
            MessageEnvelope {
                hops: 1,
                ..envelope()
            },
            MessageEnvelope {
                due: Timestamp(9_001),
                ..envelope()
            },
            MessageEnvelope {
                attempts: 3,
                ..envelope()
            },
        ];
        for other in others {
            assert!(!copies.is_second(&message(7_000, Some(other))));
        }
        let mut forged = message(7_000, Some(envelope()));
        forged.body = "another body".into();
        assert!(!copies.is_second(&forged));
        let mut forged = message(7_000, Some(envelope()));
        forged
            .attributes
            .insert("a".to_owned(), Attribute::number(2));
        assert!(!copies.is_second(&forged));
        let strangers = MessageEnvelope {
            is_verified: false,
            ..envelope()
        };
        assert!(!copies.is_second(&message(7_000, Some(strangers))));
        assert!(!copies.is_second(&message(5_000, None)));
        assert!(!copies.is_second(&message(7_000, None)));
    }
}
