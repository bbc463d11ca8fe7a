//! Recognises the copies that one send made: its answer was lost, so it was repeated.
//!
//! Each time that a message is sent again, its envelope is another one. So the copies of one send, and they alone, have the same envelope and the same content. SQS says when each of them was sent, which tells a copy from the same message that is received again. Only what this fleet has sent counts: an envelope that is not verified is nobody's copy.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::recent::{Key, Recent};
use crate::failure::Timestamp;
use crate::queue::Message;

/// The most copies that are remembered.
const MOST: usize = 60_000;

/// The messages that are in hand, or that this process has done with, by envelope and content: when they were sent.
#[derive(Debug)]
pub(super) struct Copies {
    sent: Mutex<Recent<Timestamp>>,
    hashes: RandomState,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            sent: Mutex::new(Recent::of(MOST)),
            hashes: RandomState::new(),
        }
    }
}

impl Copies {
    /// Takes a message in hand. Returns whether another copy of the same send is in hand or done, so that this one may be deleted.
    pub(super) fn is_second(&self, message: &Message) -> bool {
        let Some(key) = self.key(message) else {
            return false;
        };
        *self.lock().get_or_insert(key, message.kept_since) != message.kept_since
    }

    /// The message is no longer in hand. If it is still in its queue, it is not done.
    pub(super) fn release(&self, message: &Message, is_removed: bool) {
        if is_removed {
            return;
        }
        let Some(key) = self.key(message) else {
            return;
        };
        let mut sent = self.lock();
        if sent.get(key) == Some(&message.kept_since) {
            sent.remove(key);
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

    fn lock(&self) -> MutexGuard<'_, Recent<Timestamp>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::failure::Milliseconds;
    use crate::queue::{Attribute, Envelope, ReceiptHandle};

    fn envelope() -> Envelope {
        Envelope {
            is_verified: true,
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
        }
    }

    fn message(sent: u64, envelope: Option<Envelope>) -> Message {
        Message {
            id: "m-1".to_owned(),
            receipt_handle: ReceiptHandle("r".into()),
            body: "body".into(),
            attributes: [("a".to_owned(), Attribute::number(1))].into(),
            receive_count: NonZeroU32::MIN,
            sent: Timestamp(1_000),
            kept_since: Timestamp(sent),
            first_received: Timestamp(2_000),
            received: tokio::time::Instant::now(),
            sender: None,
            group: None,
            deduplication_id: None,
            trace_header: None,
            dead_letter_source: None,
            envelope: envelope.map(Box::new),
        }
    }

    #[test]
    fn a_second_copy_of_a_send_is_recognised_while_the_first_is_in_hand_and_after_it() {
        let copies = Copies::default();
        let (first, second) = (
            message(5_000, Some(envelope())),
            message(7_000, Some(envelope())),
        );
        assert!(!copies.is_second(&first));
        assert!(copies.is_second(&second));
        copies.release(&first, true);
        assert!(copies.is_second(&second));
        // The same one that is received again, since it could not be deleted, say.
        assert!(!copies.is_second(&first));
    }

    #[test]
    fn a_copy_is_not_deleted_if_the_first_one_was_not_done() {
        let copies = Copies::default();
        let (first, second) = (
            message(5_000, Some(envelope())),
            message(7_000, Some(envelope())),
        );
        assert!(!copies.is_second(&first));
        copies.release(&first, false);
        assert!(!copies.is_second(&second));
        // What is not in hand releases nothing.
        copies.release(&first, false);
        assert!(copies.is_second(&first));
    }

    #[test]
    fn another_send_another_content_and_a_message_without_an_envelope_are_no_copies() {
        let copies = Copies::default();
        assert!(!copies.is_second(&message(5_000, Some(envelope()))));
        let others = [
            Envelope {
                hops: 1,
                ..envelope()
            },
            Envelope {
                due: Timestamp(9_001),
                ..envelope()
            },
            Envelope {
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
        let strangers = Envelope {
            is_verified: false,
            ..envelope()
        };
        assert!(!copies.is_second(&message(7_000, Some(strangers))));
        assert!(!copies.is_second(&message(5_000, None)));
        assert!(!copies.is_second(&message(7_000, None)));
    }
}
