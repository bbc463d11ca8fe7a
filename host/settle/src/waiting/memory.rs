//! The waiting messages that a host remembers, bounded in number and bytes. A message leaves when it becomes visible. One that is then sent again stays without being counted: if it comes back to this host, its failure is still known.
//!
//! Times are milliseconds on a clock that only moves forward: a change of the system clock must not delay a message.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};
use slab::Slab;

use super::causes::{Cause, CauseNumber, Causes};
use super::packed::{self, Packing};
use super::records::{Place, Records};
use crate::decision::Hold;
use crate::failure::Milliseconds;

/// A minute in milliseconds: how exactly the times of messages that are not remembered are kept.
const MINUTE: i64 = 60_000;

/// A tenth of a second in milliseconds: how exactly messages are ordered.
const TENTH: i64 = 100;

/// The most messages that leave at one time while another one comes: the lock is held for a short time.
pub(super) const LEAVE_AT_ONCE: usize = 256;

/// The bytes of a remembered message besides its record: its slot, and its entries in the order of time and in the index by key.
const COST: usize = size_of::<Slot>() + 20 + 11;

/// How much is remembered of one queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most messages.
    pub(super) messages: usize,
    /// The most bytes, about.
    pub(super) bytes: usize,
}

/// Identifies a message: a hash that others can't foresee.
pub(super) type Key = u64;

/// Whether the failure of a message is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Known {
    /// It is.
    Here,
    /// It is too large.
    TooLarge,
    /// Another host has seen it, or this one before its start.
    Elsewhere,
}

/// A remembered message.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    record: Place,
    pub(super) key: Key,
    /// When the message, or this copy of it, becomes visible.
    pub(super) ends: i64,
    /// When its next attempt is due: later than `ends` if it is then sent again.
    pub(super) due: i64,
    /// When it was first sent.
    pub(super) sent: i64,
    /// When its last attempt failed.
    pub(super) failed: i64,
    /// The delay that was decided then.
    pub(super) delay: Milliseconds,
    /// Its failed attempts.
    pub(super) attempt: u32,
    pub(super) cause: CauseNumber,
    /// Tells this message from an earlier one in the same place.
    pub(super) serial: u32,
    /// The last reconsideration that decided about it again.
    pub(super) reconsidered: u32,
    pub(super) hold: Hold,
    pub(super) known: Known,
    /// Its envelope says when it is due: it is sent again, or was to be.
    pub(super) by_envelope: bool,
    /// Its hop has ended, and it has not come back to this host: another one may have it. `ends` is then when it was due.
    pub(super) hop_ended: bool,
}

/// A message to remember.
#[derive(Debug)]
pub(super) struct New<'a> {
    pub(super) packing: Packing,
    pub(super) key: Key,
    pub(super) ends: i64,
    pub(super) due: i64,
    pub(super) sent: i64,
    pub(super) failed: i64,
    pub(super) delay: Milliseconds,
    pub(super) attempt: u32,
    pub(super) cause: Cause<'a>,
    pub(super) hold: Hold,
    pub(super) known: Known,
    pub(super) by_envelope: bool,
}

/// Where a message is remembered. It is no longer valid once the message has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct At {
    slot: u32,
    serial: u32,
}

/// The remembered messages of one queue.
#[derive(Debug)]
pub(super) struct Memory {
    limits: Limits,
    slots: Slab<Slot>,
    /// The places, found by the keys in the slots.
    by_key: HashTable<u32>,
    /// The places in the order of [`tenth`].
    by_end: BTreeSet<(u32, u32)>,
    records: Records,
    causes: Causes,
    serial: u32,
    /// Counts the messages that come, leave or change.
    changes: u64,
    /// The messages that wait and are not remembered, by the minute in which they become visible.
    not_remembered: BTreeMap<i64, u64>,
}

impl Memory {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: Slab::new(),
            by_key: HashTable::new(),
            by_end: BTreeSet::new(),
            records: Records::default(),
            causes: Causes::default(),
            serial: 0,
            changes: 0,
            not_remembered: BTreeMap::new(),
        }
    }

    /// Remembers a message, instead of what was remembered of it. If there are too many, the ones that become visible last are not remembered.
    pub(super) fn add(&mut self, new: New<'_>, now: i64) {
        self.expire(now, LEAVE_AT_ONCE);
        self.forget(new.key);
        self.serial = self.serial.wrapping_add(1);
        self.changes += 1;
        let number = u32::try_from(self.slots.vacant_key()).unwrap_or(u32::MAX);
        let (cause, record) = self.causes.add(new.cause, &new.packing);
        let slot = Slot {
            record: self.records.add(number, &record),
            key: new.key,
            ends: new.ends,
            due: new.due,
            sent: new.sent,
            failed: new.failed,
            delay: new.delay,
            attempt: new.attempt,
            cause,
            serial: self.serial,
            reconsidered: 0,
            hold: new.hold,
            known: new.known,
            by_envelope: new.by_envelope,
            hop_ended: false,
        };
        self.slots.insert(slot);
        let slots = &self.slots;
        self.by_key
            .insert_unique(new.key, number, |place| key(slots, *place));
        self.by_end.insert((tenth(new.ends), number));
        while self.slots.len() > self.limits.messages || self.bytes() > self.limits.bytes {
            let Some((tenths, number)) = self.by_end.last().copied() else {
                return;
            };
            let slot = self.slots.get(number as usize);
            let waits = slot.is_some_and(|slot| !slot.hop_ended);
            self.remove(number);
            let minute = i64::from(tenths) * TENTH / MINUTE;
            if waits {
                *self.not_remembered.entry(minute).or_default() += 1;
            }
        }
    }

    /// Forgets the message with this key, if it is remembered.
    pub(super) fn forget(&mut self, key: Key) {
        if let Some(number) = self.place(key) {
            self.remove(number);
        }
    }

    /// Forgets this message, if it is still remembered.
    pub(super) fn forget_at(&mut self, at: At) {
        if self.get(at).is_some() {
            self.remove(at.slot);
        }
    }

    /// Forgets at most this number of messages that have become visible, and no longer counts those whose hop has ended.
    pub(super) fn expire(&mut self, now: i64, most: usize) {
        for _ in 0..most {
            match self.by_end.first().copied() {
                Some((ends, number)) if ends <= tenth(now) => self.ended(number),
                Some(_) | None => break,
            }
        }
        let minute = now.div_euclid(MINUTE);
        while let Some(first) = self.not_remembered.first_entry()
            && *first.key() < minute
        {
            first.remove();
        }
    }

    /// A message has become visible. It may come back to this host before it is due: its failure is kept until then.
    fn ended(&mut self, number: u32) {
        let slot = self.slots.get_mut(number as usize);
        let Some(slot) = slot.filter(|slot| {
            let goes_on = tenth(slot.due) > tenth(slot.ends) && !slot.hop_ended;
            goes_on && slot.hold == Hold::Resend && slot.known == Known::Here
        }) else {
            return self.remove(number);
        };
        self.by_end.remove(&(tenth(slot.ends), number));
        self.by_end.insert((tenth(slot.due), number));
        (slot.ends, slot.hop_ended) = (slot.due, true);
    }

    /// The messages in the order in which they become visible.
    pub(super) fn iter(&self) -> impl Iterator<Item = (At, &Slot)> {
        self.all().filter(|(_, slot)| !slot.hop_ended)
    }

    /// The messages that wait, in no order.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let slots = self.slots.iter().map(|(_, slot)| slot);
        slots.filter(|slot| !slot.hop_ended)
    }

    /// The messages whose hop has ended and that have not come back, in the order in which they were due.
    pub(super) fn ended_hops(&self) -> impl Iterator<Item = (At, &Slot)> {
        self.all().filter(|(_, slot)| slot.hop_ended)
    }

    fn all(&self) -> impl Iterator<Item = (At, &Slot)> {
        self.by_end.iter().filter_map(|(_, number)| {
            let slot = self.slots.get(*number as usize)?;
            let at = At {
                slot: *number,
                serial: slot.serial,
            };
            Some((at, slot))
        })
    }

    /// The message, if it is still remembered.
    pub(super) fn get(&self, at: At) -> Option<&Slot> {
        let slot = self.slots.get(at.slot as usize)?;
        (slot.serial == at.serial).then_some(slot)
    }

    /// The message with this key, if it is remembered: also one whose hop has ended.
    pub(super) fn find(&self, key: Key) -> Option<(At, &Slot)> {
        let number = self.place(key)?;
        let slot = self.slots.get(number as usize)?;
        let at = At {
            slot: number,
            serial: slot.serial,
        };
        Some((at, slot))
    }

    /// A message was sent again after the same failure: its hop ends at `ends`.
    pub(super) fn set_hop(&mut self, at: At, ends: i64, due: i64) {
        self.set_end(at, ends);
        self.change(at, |slot| {
            slot.due = due;
            slot.hop_ended = false;
        });
    }

    /// A message that was held by visibility becomes visible at another time.
    pub(super) fn set_end(&mut self, at: At, ends: i64) {
        if let Some(slot) = self.get(at) {
            self.by_end.remove(&(tenth(slot.ends), at.slot));
            self.by_end.insert((tenth(ends), at.slot));
            self.change(at, |slot| (slot.ends, slot.due) = (ends, ends));
        }
    }

    /// Changes the time at which a message that is sent again will be attempted.
    pub(super) fn set_due(&mut self, at: At, due: i64) {
        self.change(at, |slot| slot.due = due);
    }

    /// The hop of a message has ended, and it has not come back.
    pub(super) fn set_hop_ended(&mut self, key: Key) {
        if let Some((at, _)) = self.find(key) {
            self.change(at, |slot| slot.hop_ended = true);
        }
    }

    /// Notes which reconsideration decided about a message again.
    pub(super) fn set_reconsidered(&mut self, at: At, number: u32) {
        self.change(at, |slot| slot.reconsidered = number);
    }

    fn change(&mut self, at: At, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots.get_mut(at.slot as usize)
            && slot.serial == at.serial
        {
            change(slot);
            self.changes += 1;
        }
    }

    /// A number that is another one after each change.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// How many places there are: some of them have a message.
    pub(super) fn places(&self) -> u32 {
        u32::try_from(self.slots.capacity()).unwrap_or(u32::MAX)
    }

    /// The message in a place.
    pub(super) fn at_place(&self, place: u32) -> Option<&Slot> {
        self.slots.get(place as usize)
    }

    /// Why a message waits.
    pub(super) fn cause(&self, slot: &Slot) -> Cause<'_> {
        self.causes.get(slot.cause)
    }

    /// The number of why a message waits, whatever its group.
    pub(super) fn base(&self, slot: &Slot) -> CauseNumber {
        self.causes.base(slot.cause)
    }

    /// What [`pack`](packed::pack) wrote of a message that is still remembered.
    pub(super) fn packed(&self, slot: &Slot) -> Vec<u8> {
        packed::restore(self.record(slot), self.first(slot)).unwrap_or_default()
    }

    /// The bytes that a message has for itself.
    pub(super) fn record(&self, slot: &Slot) -> &[u8] {
        self.records.get(slot.record)
    }

    /// The first failure with its cause.
    pub(super) fn first(&self, slot: &Slot) -> &[u8] {
        self.causes.first(slot.cause)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many messages wait and are not remembered because of the limits, to the minute.
    pub(super) fn not_remembered(&self) -> u64 {
        self.not_remembered.values().sum()
    }

    /// The memory that all of it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.records.bytes() + self.slots.len() * COST + self.causes.bytes()
    }

    fn place(&self, wanted: Key) -> Option<u32> {
        let is_it = |place: &u32| key(&self.slots, *place) == wanted;
        self.by_key.find(wanted, is_it).copied()
    }

    fn remove(&mut self, number: u32) {
        let Some(slot) = self.slots.try_remove(number as usize) else {
            return;
        };
        self.changes += 1;
        self.by_end.remove(&(tenth(slot.ends), number));
        let found = self.by_key.find_entry(slot.key, |place| *place == number);
        if let Ok(found) = found {
            found.remove();
        }
        if let Some(moved) = self.records.remove(slot.record)
            && let Some(owner) = self.slots.get_mut(moved.owner as usize)
        {
            owner.record = owner.record.after(&moved);
        }
        self.causes.remove(slot.cause);
        if self.slots.is_empty() {
            // A wave of failures is over: its memory is returned.
            self.slots.shrink_to_fit();
            self.by_key = HashTable::new();
        }
    }
}

fn key(slots: &Slab<Slot>, place: u32) -> Key {
    slots.get(place as usize).map_or(0, |slot| slot.key)
}

/// A time in tenths of a second, which takes less memory than milliseconds.
fn tenth(milliseconds: i64) -> u32 {
    u32::try_from(milliseconds.max(0) / TENTH).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
