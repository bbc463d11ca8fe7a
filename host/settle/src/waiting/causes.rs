//! Why messages wait: a code, a class and the policy that decided, and the group of the message, each combination kept once and as long as messages have it.
//!
//! Failures with one cause mostly have one text, or differ by a request id. So the first one is kept too, and of all others only what they do not have in common with it.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use slab::Slab;

use super::packed::Packing;

/// The bytes that a cause takes besides its texts.
const COST: usize = 184;

/// Why a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Cause<'a> {
    pub(super) code: &'a str,
    pub(super) class: &'a str,
    /// The digests of the policy that decided.
    pub(super) policy: &'a str,
    /// The group of the message, if messages are grouped.
    pub(super) group: &'a str,
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

#[derive(Debug, Default)]
struct Kept {
    code: Box<str>,
    class: Box<str>,
    policy: Box<str>,
    group: Box<str>,
    /// Of a group: the same cause without it, which has the other texts and the first failure for all groups.
    base: Option<u32>,
    /// The first failure, as it was packed.
    first: Box<[u8]>,
    uses: u32,
}

impl Kept {
    fn cause<'a>(&'a self, all: &'a Slab<Self>) -> Cause<'a> {
        let base = self.base.and_then(|base| all.get(base as usize));
        let texts = base.unwrap_or(self);
        Cause {
            code: &texts.code,
            class: &texts.class,
            policy: &texts.policy,
            group: &self.group,
        }
    }

    fn bytes(&self) -> usize {
        let texts = [&self.code, &self.class, &self.policy, &self.group];
        COST + texts.map(|text| text.len()).iter().sum::<usize>() + self.first.len()
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
        let number = self.number(cause);
        self.uses(number);
        let base = self.base(CauseNumber(number)).0;
        let mut record = Vec::new();
        if let Some(kept) = self.kept.get_mut(base as usize) {
            if kept.first.is_empty() {
                kept.first = packing.failure().into();
                self.bytes += kept.first.len();
            }
            record = packing.without(&kept.first);
        }
        (CauseNumber(number), record)
    }

    fn uses(&mut self, number: u32) {
        if let Some(kept) = self.kept.get_mut(number as usize) {
            kept.uses = kept.uses.saturating_add(1);
        }
    }

    /// The number of a cause, which is kept from now on.
    fn number(&mut self, cause: Cause<'_>) -> u32 {
        let hash = self.hashes.hash_one(cause);
        let is_it = |number: &u32| self.get(CauseNumber(*number)) == cause;
        if let Some(found) = self.numbers.find(hash, is_it) {
            return *found;
        }
        if cause.group.is_empty() {
            let texts = [cause.code, cause.class, cause.policy].map(Box::from);
            let [code, class, policy] = texts;
            let kept = Kept {
                code,
                class,
                policy,
                ..Kept::default()
            };
            return self.insert(kept, hash);
        }
        let base = self.number(Cause { group: "", ..cause });
        self.uses(base);
        let kept = Kept {
            group: cause.group.into(),
            base: Some(base),
            ..Kept::default()
        };
        self.insert(kept, hash)
    }

    fn insert(&mut self, kept: Kept, hash: u64) -> u32 {
        self.bytes += kept.bytes();
        let number = u32::try_from(self.kept.insert(kept)).unwrap_or(u32::MAX);
        let (kept, hashes) = (&self.kept, &self.hashes);
        self.numbers.insert_unique(hash, number, |number| {
            let it = kept.get(*number as usize);
            it.map_or(0, |it| hashes.hash_one(it.cause(kept)))
        });
        number
    }

    /// One message less has this cause. One that no message has is dropped.
    pub(super) fn remove(&mut self, CauseNumber(number): CauseNumber) {
        let Some(kept) = self.kept.get_mut(number as usize) else {
            return;
        };
        kept.uses = kept.uses.saturating_sub(1);
        if kept.uses > 0 {
            return;
        }
        let hash = self.hashes.hash_one(self.get(CauseNumber(number)));
        if let Ok(found) = self.numbers.find_entry(hash, |it| *it == number) {
            found.remove();
        }
        let kept = self.kept.remove(number as usize);
        self.bytes -= kept.bytes();
        if let Some(base) = kept.base {
            self.remove(CauseNumber(base));
        }
    }

    /// The cause with this number.
    pub(super) fn get(&self, CauseNumber(number): CauseNumber) -> Cause<'_> {
        let kept = self.kept.get(number as usize);
        kept.map(|it| it.cause(&self.kept)).unwrap_or_default()
    }

    /// The number of the same cause without its group.
    pub(super) fn base(&self, CauseNumber(number): CauseNumber) -> CauseNumber {
        let base = self.kept.get(number as usize).and_then(|it| it.base);
        CauseNumber(base.unwrap_or(number))
    }

    /// The first failure with this cause, in whatever group.
    pub(super) fn first(&self, number: CauseNumber) -> &[u8] {
        let kept = self.kept.get(self.base(number).0 as usize);
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
            group: "",
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

    #[test]
    fn groups_share_the_texts_and_the_first_failure_of_their_cause() {
        let mut causes = Causes::default();
        let of = |group| Cause {
            group,
            ..cause("HTTP 503")
        };
        let failure = [7; 500];
        let packing = Packing::of(b"own", &failure);
        let added: Vec<_> = ["acme", "globex", "", "acme"]
            .into_iter()
            .map(|group| causes.add(of(group), &packing))
            .collect();
        let numbers: Vec<_> = added.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers[0], numbers[3]);
        for (number, group) in numbers.iter().zip(["acme", "globex", ""]) {
            assert_eq!(causes.get(*number), of(group));
            assert_eq!(causes.first(*number), failure);
            assert_eq!(causes.base(*number), numbers[2]);
        }
        assert!(added.iter().all(|(_, record)| record.len() < 10));
        let texts = "HTTP 503transientsha256:00acmeglobex".len();
        assert_eq!(causes.bytes(), 3 * COST + texts + failure.len());
        assert!(size_of::<Kept>() + 24 <= COST);
        // The cause stays as long as one of its groups has a message.
        causes.remove(numbers[2]);
        causes.remove(numbers[1]);
        causes.remove(numbers[0]);
        assert_eq!(causes.get(numbers[0]), of("acme"));
        assert_eq!(causes.first(numbers[0]), failure);
        causes.remove(numbers[3]);
        assert_eq!((causes.bytes(), causes.numbers.len()), (0, 0));
        assert!(causes.kept.is_empty());
    }
}
