//! The span of the last attempt of each message that waits invisible in its queue: its next attempt has a link to it. A message that is sent again carries it along instead.
//!
//! In memory and bounded, and empty while no spans are recorded. After a restart, and at another host, an attempt has a link to the sender only.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use backstop_core::lock::lock;
use backstop_traces::{TraceContext, is_on};

use super::recent::{Key, Recent};
use crate::queue::Message;

/// The most messages that SQS has in flight.
const MESSAGES: usize = 120_000;

/// The spans, by a hash of the message's id.
#[derive(Debug)]
pub(super) struct Previous {
    spans: Mutex<Recent<TraceContext>>,
    hashes: RandomState,
}

impl Default for Previous {
    fn default() -> Self {
        Self {
            spans: Mutex::new(Recent::of(MESSAGES)),
            hashes: RandomState::new(),
        }
    }
}

impl Previous {
    fn key(&self, message: &Message) -> Key {
        self.hashes.hash_one(&message.id)
    }

    /// The span of the attempt before, as far as this process knows it or the message carries it.
    pub(super) fn of(&self, message: &Message) -> Option<TraceContext> {
        let known = lock(&self.spans).get(self.key(message)).copied();
        // A message that was sent again carries the last one.
        match &message.envelope {
            Some(_) => message.previous().or(known),
            None => known.or_else(|| message.previous()),
        }
    }

    /// This attempt failed, and another one may follow.
    pub(super) fn failed(&self, message: &Message, attempt: Option<TraceContext>) {
        if let Some(attempt) = attempt {
            *lock(&self.spans).get_or_insert(self.key(message), attempt) = attempt;
        }
    }

    /// The message has left the queue.
    pub(super) fn forget(&self, message: &Message) {
        if is_on() {
            lock(&self.spans).remove(self.key(message));
        }
    }
}
