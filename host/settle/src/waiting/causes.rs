//! Why messages wait: a code, a class and the policy that decided, each combination kept once and as long as messages have it.
//!
//! Failures with one cause mostly have one text, or differ by a request id. So the first one is kept too, and of all others only what they do not have in common with it.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use slab::Slab;

use super::packed::Packing;

/// The bytes that a cause takes besides its texts.
const COST: usize = 160;

/// Why a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Cause<'a> {
    pub(super) code: &'a str,
    pub(super) class: &'a str,
    /// The digests of the policy that decided.
    pub(super) policy: &'a str,
}

/// The class of messages that are held back without a decision.
pub(super) const HELD_BACK: &str = "held-back";

/// Whether no policy has decided that a message waits. A policy may have a class of the same name.
pub(super) fn is_held_back(cause: &Cause<'_>) -> bool {
    cause.class == HELD_BACK && cause.policy.is_empty()
}

/// The number of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CauseNumber(u32);

#[derive(Debug)]
struct Kept {
    code: Box<str>,
    class: Box<str>,
    policy: Box<str>,
    /// The first failure, as it was packed.
    first: Box<[u8]>,
    uses: u32,
}

impl Kept {
    fn cause(&self) -> Cause<'_> {
        Cause {
            code: &self.code,
            class: &self.class,
            policy: &self.policy,
        }
    }

    fn bytes(&self) -> usize {
        COST + self.code.len() + self.class.len() + self.policy.len() + self.first.len()
    }
}

/// The causes of all remembered messages.
#[derive(Debug, Default)]
pub(super) struct Causes {
    kept: Slab<Kept>,
    /// The numbers of the causes, found by their texts.
    numbers: HashTable<u32>,
    hashes: RandomState,
    bytes: usize,
}

impl Causes {
    /// One more message has this cause. Returns what is to be kept of the message.
    pub(super) fn add(&mut self, cause: Cause<'_>, packing: &Packing) -> (CauseNumber, Vec<u8>) {
        let hash = self.hashes.hash_one(cause);
        let is_it = |number: &u32| self.get(CauseNumber(*number)) == cause;
        let found = self.numbers.find(hash, is_it).copied();
        let number = found.unwrap_or_else(|| self.insert(cause, hash));
        let mut record = Vec::new();
        if let Some(kept) = self.kept.get_mut(number as usize) {
            kept.uses = kept.uses.saturating_add(1);
            if kept.first.is_empty() {
                kept.first = packing.failure().into();
                self.bytes += kept.first.len();
            }
            record = packing.without(&kept.first);
        }
        (CauseNumber(number), record)
    }

    fn insert(&mut self, cause: Cause<'_>, hash: u64) -> u32 {
        let kept = Kept {
            code: cause.code.into(),
            class: cause.class.into(),
            policy: cause.policy.into(),
            first: Box::default(),
            uses: 0,
        };
        self.bytes += kept.bytes();
        let number = u32::try_from(self.kept.insert(kept)).unwrap_or(u32::MAX);
        let (kept, hashes) = (&self.kept, &self.hashes);
        self.numbers.insert_unique(hash, number, |number| {
            let kept = kept.get(*number as usize);
            kept.map_or(0, |kept| hashes.hash_one(kept.cause()))
        });
        number
    }

    /// One message less has this cause. One that no message has is dropped.
    pub(super) fn remove(&mut self, CauseNumber(number): CauseNumber) {
        let Some(kept) = self.kept.get_mut(number as usize) else {
            return;
        };
        kept.uses = kept.uses.saturating_sub(1);
        if kept.uses == 0 {
            let kept = self.kept.remove(number as usize);
            self.bytes -= kept.bytes();
            let hash = self.hashes.hash_one(kept.cause());
            if let Ok(found) = self.numbers.find_entry(hash, |it| *it == number) {
                found.remove();
            }
        }
    }

    /// The cause with this number.
    pub(super) fn get(&self, CauseNumber(number): CauseNumber) -> Cause<'_> {
        let kept = self.kept.get(number as usize);
        kept.map(Kept::cause).unwrap_or_default()
    }

    /// The first failure with this cause.
    pub(super) fn first(&self, CauseNumber(number): CauseNumber) -> &[u8] {
        let kept = self.kept.get(number as usize);
        kept.map_or(&[], |kept| &kept.first)
    }

    /// The memory that the causes take, about.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(code: &str) -> Cause<'_> {
        Cause {
            code,
            class: "transient",
            policy: "sha256:00",
        }
    }

    #[test]
    fn a_cause_is_kept_once_and_as_long_as_messages_have_it() {
        let mut causes = Causes::default();
        let failure = Packing::of(b"own", b"failure");
        let (first, _) = causes.add(cause("HTTP 503"), &failure);
        assert_eq!(causes.add(cause("HTTP 503"), &failure).0, first);
        let (other, _) = causes.add(cause("ECONNRESET"), &failure);
        assert_eq!(
            [first, other].map(|number| causes.get(number).code),
            ["HTTP 503", "ECONNRESET"]
        );
        causes.remove(first);
        assert_eq!(causes.get(first), cause("HTTP 503"));
        assert_eq!(causes.first(first), b"failure");
        causes.remove(first);
        causes.remove(other);
        assert_eq!((causes.bytes(), causes.numbers.len()), (0, 0));
        for number in 0..1_000 {
            let (number, _) = causes.add(cause(&number.to_string()), &failure);
            causes.remove(number);
        }
        assert_eq!((causes.bytes(), causes.kept.capacity() < 10), (0, true));
    }

    #[test]
    fn the_first_failure_of_a_cause_is_kept_once() {
        let mut causes = Causes::default();
        // This one's failure is not remembered.
        causes.add(cause("HTTP 503"), &Packing::of(b"own", b""));
        let failure = [7; 500];
        for _ in 0..3 {
            let (number, record) = causes.add(cause("HTTP 503"), &Packing::of(b"own", &failure));
            assert!(record.len() < 10, "{record:?}");
            assert_eq!(causes.first(number), failure);
        }
        let bytes = COST + "HTTP 503transientsha256:00".len() + failure.len();
        assert_eq!(causes.bytes(), bytes);
    }
}
