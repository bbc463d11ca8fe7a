//! Which entries are sent next: a state machine without I/O and without a clock of its own.
//!
//! Only the first unsettled entry of a group is ready, delayed or in flight; the others wait behind it. Any entries that are ready therefore make a valid request.

use std::cmp::Reverse;
use std::collections::hash_map::{Entry as Slot, HashMap, RandomState};
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::hash::BuildHasher;

use slab::Slab;
use tokio::time::Instant;

use crate::held::Held;
use crate::outcome::Undelivered;
use crate::target::{Duplicates, Group, Limits};

/// The entries without an outcome, except for those in flight.
#[derive(Debug)]
pub(crate) struct Schedule<E> {
    limits: Limits,
    duplicates: Duplicates,
    /// Entries that are ready or delayed.
    held: Slab<Held<E>>,
    /// The entries to send next, and since when they are ready.
    ready: VecDeque<(usize, Instant)>,
    /// The entries with a due time, the earliest first; those with the same due time in their order.
    delayed: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    /// Parts of requests that were refused as a whole. Each is the next request.
    parts: VecDeque<Vec<Held<E>>>,
    groups: HashMap<Group, InGroup<E>>,
    /// The hashes of groups whose order can't be kept any more. Two groups with one hash cost an entry its delivery, not its outcome.
    stopped: Option<HashSet<u64>>,
    hasher: RandomState,
    count: usize,
    bytes: usize,
}

/// A group with an entry that is not settled.
#[derive(Debug)]
struct InGroup<E> {
    /// The place of its first entry in `held`; `None` while that is in flight.
    first: Option<usize>,
    /// The others, in order.
    behind: VecDeque<Held<E>>,
}

/// What became of an entry that was offered.
#[derive(Debug)]
pub(crate) enum Accepted<E> {
    /// It is held.
    Held,
    /// It is held in place of this one.
    InPlaceOf(Held<E>),
    /// It is not held.
    Refused(Held<E>, Undelivered),
}

impl<E> Schedule<E> {
    /// `stop_groups`: a group with an undelivered entry accepts no other.
    pub(crate) fn new(limits: Limits, duplicates: Duplicates, stop_groups: bool) -> Self {
        Self {
            limits,
            duplicates,
            held: Slab::new(),
            ready: VecDeque::new(),
            delayed: BinaryHeap::new(),
            parts: VecDeque::new(),
            groups: HashMap::new(),
            stopped: stop_groups.then(HashSet::new),
            hasher: RandomState::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// The entries without an outcome, in flight or not.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The bytes of the entries without an outcome.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries can be sent now.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Offers a new entry.
    pub(crate) fn accept(&mut self, held: Held<E>, now: Instant) -> Accepted<E> {
        let Some(group) = held.meta.group.clone() else {
            return match held.meta.unfit.as_deref().cloned() {
                Some(why) => Accepted::Refused(held, why),
                None => {
                    self.add(&held);
                    self.make_ready(held, now);
                    Accepted::Held
                }
            };
        };
        if self.is_stopped(&group) {
            return Accepted::Refused(held, Undelivered::HeldBack);
        }
        match self.groups.entry(group) {
            Slot::Vacant(slot) => {
                if let Some(why) = held.meta.unfit.as_deref().cloned() {
                    let group = slot.into_key();
                    self.stop_group(&group);
                    return Accepted::Refused(held, why);
                }
                slot.insert(InGroup {
                    first: None,
                    behind: VecDeque::new(),
                });
                self.add(&held);
                self.make_ready(held, now);
                Accepted::Held
            }
            Slot::Occupied(mut slot) => {
                let group = slot.get_mut();
                let last_wins =
                    self.duplicates == Duplicates::LastWins && held.meta.unfit.is_none();
                if self.duplicates == Duplicates::Refuse {
                    return Accepted::Refused(held, Undelivered::Duplicate);
                }
                (self.count, self.bytes) = (self.count + 1, self.bytes + held.meta.bytes);
                let replaced = if !last_wins {
                    group.behind.push_back(held);
                    None
                } else if let Some(last) = group.behind.back_mut() {
                    Some(std::mem::replace(last, held))
                } else if let Some(first) = group.first.and_then(|slot| self.held.get_mut(slot)) {
                    Some(std::mem::replace(first, held))
                } else {
                    group.behind.push_back(held);
                    None
                };
                match replaced {
                    None => Accepted::Held,
                    Some(replaced) => {
                        self.remove(&replaced);
                        Accepted::InPlaceOf(replaced)
                    }
                }
            }
        }
    }

    /// Holds an entry that was in flight until it is due.
    pub(crate) fn delay(&mut self, held: Held<E>, due: Instant) {
        let index = held.meta.index;
        let slot = self.insert(held);
        self.delayed.push(Reverse((due, index, slot)));
    }

    /// Makes the entries ready whose due time has come.
    pub(crate) fn wake(&mut self, now: Instant) {
        while let Some(Reverse((due, _, slot))) = self.delayed.peek().copied() {
            if due > now {
                break;
            }
            self.delayed.pop();
            self.ready.push_back((slot, now));
        }
    }

    /// When the next delayed entry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.peek().map(|Reverse((due, _, _))| *due)
    }

    /// Since when the first entry is ready.
    pub(crate) fn ready_since(&self) -> Option<Instant> {
        self.ready.front().map(|(_, since)| *since)
    }

    /// The entries of the next request: as many as fit, or nothing if more would fit and `partial` is false.
    pub(crate) fn take(&mut self, partial: bool) -> Option<Vec<Held<E>>> {
        if let Some(part) = self.parts.pop_front() {
            return Some(part);
        }
        let (mut bytes, mut fitting) = (0, 0);
        for (slot, _) in self.ready.iter().take(self.limits.entries) {
            let size = self.held.get(*slot).map_or(0, |held| held.meta.bytes);
            if bytes + size > self.limits.bytes && fitting > 0 {
                break;
            }
            (bytes, fitting) = (bytes + size, fitting + 1);
        }
        let is_full = fitting == self.limits.entries || fitting < self.ready.len();
        if fitting == 0 || !(partial || is_full) {
            return None;
        }
        let mut batch = Vec::with_capacity(fitting);
        for (slot, _) in self.ready.drain(..fitting) {
            let Some(held) = self.held.try_remove(slot) else {
                continue;
            };
            if let Some(group) = &held.meta.group
                && let Some(group) = self.groups.get_mut(group)
            {
                group.first = None;
            }
            batch.push(held);
        }
        Some(batch)
    }

    /// Sends these entries again, in two requests instead of one.
    pub(crate) fn halve(&mut self, mut batch: Vec<Held<E>>) {
        let second = batch.split_off(batch.len().div_ceil(2));
        self.parts.push_front(second);
        self.parts.push_front(batch);
    }

    /// An entry that was in flight has its outcome, and `delivered` says which. Returns the entries that can't be delivered because of it, with the reason.
    pub(crate) fn settle(
        &mut self,
        held: &Held<E>,
        delivered: bool,
        now: Instant,
    ) -> Vec<(Held<E>, Undelivered)> {
        self.remove(held);
        let mut ended = Vec::new();
        let Some(group) = &held.meta.group else {
            return ended;
        };
        if !delivered {
            self.stop_group(group);
        }
        loop {
            let Some(mut in_group) = self.groups.remove(group) else {
                return ended;
            };
            let Some(next) = in_group.behind.pop_front() else {
                return ended;
            };
            let why = match &next.meta.unfit {
                _ if self.is_stopped(group) => Undelivered::HeldBack,
                Some(why) => (**why).clone(),
                None => {
                    self.groups.insert(group.clone(), in_group);
                    self.make_ready(next, now);
                    return ended;
                }
            };
            self.stop_group(group);
            self.remove(&next);
            ended.push((next, why));
            self.groups.insert(group.clone(), in_group);
        }
    }

    /// Everything that is neither in flight nor behind an entry in flight, in the order of the input.
    pub(crate) fn drain(&mut self) -> Vec<Held<E>> {
        self.ready.clear();
        self.delayed.clear();
        let mut drained: Vec<_> = self.held.drain().collect();
        drained.extend(self.parts.drain(..).flatten());
        let groups: Vec<_> = drained
            .iter()
            .filter_map(|held| held.meta.group.clone())
            .collect();
        for group in groups {
            if let Some(in_group) = self.groups.remove(&group) {
                drained.extend(in_group.behind);
            }
        }
        drained.iter().for_each(|held| {
            (self.count, self.bytes) = (self.count - 1, self.bytes - held.meta.bytes);
        });
        drained.sort_by_key(|held| held.meta.index);
        drained
    }

    /// The entries behind one that was in flight and is not delivered. The group ends with them.
    pub(crate) fn drain_group(&mut self, group: &Group) -> Vec<Held<E>> {
        let behind = self.groups.remove(group).map(|group| group.behind);
        let behind: Vec<_> = behind.unwrap_or_default().into();
        behind.iter().for_each(|held| self.remove(held));
        behind
    }

    fn make_ready(&mut self, held: Held<E>, now: Instant) {
        let slot = self.insert(held);
        self.ready.push_back((slot, now));
    }

    fn insert(&mut self, held: Held<E>) -> usize {
        let group = held.meta.group.clone();
        let slot = self.held.insert(held);
        if let Some(group) = group.and_then(|group| self.groups.get_mut(&group)) {
            group.first = Some(slot);
        }
        slot
    }

    fn add(&mut self, held: &Held<E>) {
        (self.count, self.bytes) = (self.count + 1, self.bytes + held.meta.bytes);
    }

    /// An entry has its outcome, or is about to.
    pub(crate) fn remove(&mut self, held: &Held<E>) {
        (self.count, self.bytes) = (self.count - 1, self.bytes - held.meta.bytes);
    }

    fn is_stopped(&self, group: &Group) -> bool {
        let stopped = self.stopped.as_ref().filter(|stopped| !stopped.is_empty());
        stopped.is_some_and(|stopped| stopped.contains(&self.hasher.hash_one(group)))
    }

    fn stop_group(&mut self, group: &Group) {
        let hash = self.hasher.hash_one(group);
        if let Some(stopped) = &mut self.stopped {
            stopped.insert(hash);
        }
    }
}
