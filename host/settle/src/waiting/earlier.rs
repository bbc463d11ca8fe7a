//! Earlier due times of messages that are sent again. Such a message can't be made visible before its hop ends: its earlier time waits here, and is taken when the message arrives. Any host that has the time finds the message by its envelope, so a host that decided again passes its times on to the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::MutexGuard;
use std::time::Duration;

use backstop_core::lock::lock;
use serde::{Deserialize, Serialize};

use super::Waiting;
use super::memory::{Key, Known};
use super::rules::LATE;
use super::wake::{LEAST, id};
use crate::decision::Hold;
use crate::failure::Timestamp;
use crate::queue::MessageEnvelope;

/// The most times of one queue.
const TIMES: usize = 240_000;

/// How far apart two times of the same failure are at most, in milliseconds: one of them was kept on a clock that only moves forward.
const SAME: u64 = 1_000;

/// Earlier due times, decided by another host that saw the messages fail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Earlier {
    /// The messages and their times.
    pub messages: Vec<EarlierTime>,
    /// Only count.
    pub dry_run: bool,
}

/// The earlier due time of a message that is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EarlierTime {
    /// Its id when it was first sent.
    pub id: String,
    /// When the attempt failed about which was decided again. If it has failed again since, the time does not apply.
    pub failed_at: Timestamp,
    /// When it is due by the new decision.
    pub due: Timestamp,
}

/// What became of the times that another host decided.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Taken {
    /// The times that are kept for the case that this host receives the message.
    pub kept: u64,
    /// Of these messages, the ones that this host has sent again, and that come sooner for it.
    pub resent: u64,
    /// When the last of those comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent_until: Option<Timestamp>,
}

/// The earlier times of one queue, by message and failure.
#[derive(Debug, Default)]
pub(super) struct EarlierTimes {
    times: HashMap<Key, Time>,
    /// When the last one ends.
    ends: Timestamp,
}

#[derive(Debug, Clone, Copy)]
struct Time {
    due: Timestamp,
    ends: Timestamp,
}

impl EarlierTimes {
    /// Forgets the times whose messages have come, so that there is room for others.
    fn make_room(&mut self, now: Timestamp) {
        self.times.retain(|_, time| time.ends > now);
        self.times.shrink_to_fit();
    }

    /// Keeps a time until the message must have come. Each hop takes this long at most. Returns whether there was room.
    pub(super) fn add(
        &mut self,
        key: Key,
        due: Timestamp,
        now: Timestamp,
        longest_hop: Duration,
    ) -> bool {
        let ends = due.max(now).plus(longest_hop + LATE);
        let has_room = self.times.len() < TIMES;
        match self.times.entry(key) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.due = known.due.min(due);
                known.ends = known.ends.max(ends);
            }
            Entry::Vacant(_) if !has_room => return false,
            Entry::Vacant(free) => {
                free.insert(Time { due, ends });
            }
        }
        self.ends = self.ends.max(ends);
        true
    }

    fn get(&mut self, key: Key, now: Timestamp) -> Option<Timestamp> {
        if self.ends <= now {
            self.times = HashMap::new();
        }
        let time = self.times.get(&key)?;
        (time.ends > now).then_some(time.due)
    }
}

impl Waiting {
    /// Keeps earlier due times that another host decided. They apply to messages that failed when that host says and not since, when their hop ends.
    pub fn take(&self, earlier: &Earlier) -> Taken {
        let (now, today) = (self.now(), self.queue.now());
        let mut taken = Taken::default();
        if self.fifo {
            return taken;
        }
        taken.kept = earlier.messages.len() as u64;
        if !earlier.dry_run {
            let mut times = self.earlier_times(today);
            let kept = earlier.messages.iter().filter(|it| {
                let key = self.key_of_failure(&it.id, it.failed_at);
                times.add(key, it.due, today, self.longest_hop)
            });
            taken.kept = kept.count() as u64;
        }
        let by_id: HashMap<_, _> = earlier
            .messages
            .iter()
            .map(|it| (it.id.as_str(), it))
            .collect();
        let mut memory = self.memory();
        memory.expire(now, usize::MAX);
        let mut sooner = Vec::new();
        for (at, slot) in memory.iter() {
            // This host decides about the others itself.
            if slot.hold != Hold::Resend || slot.known != Known::Elsewhere {
                continue;
            }
            let Some(time) = by_id.get(id(&memory, slot).as_str()) else {
                continue;
            };
            let is_same = self
                .timestamp(slot.failed, now)
                .0
                .abs_diff(time.failed_at.0)
                <= SAME;
            let comes = self.at(time.due, now).max(slot.ends);
            if is_same && slot.due - comes >= LEAST {
                sooner.push((at, comes));
            }
        }
        taken.resent = sooner.len() as u64;
        let until = sooner.iter().map(|(_, comes)| *comes).max();
        taken.resent_until = until.map(|until| self.timestamp(until, now));
        if !earlier.dry_run {
            for (at, comes) in sooner {
                memory.set_due(at, comes);
            }
        }
        taken
    }

    /// The due time that was decided again of a message that has come before it is due, if it is earlier.
    pub(super) fn earlier_time(
        &self,
        envelope: &MessageEnvelope,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let key = self.key_of_failure(&envelope.id, envelope.failed_at());
        let mut times = self.lock_earlier();
        times.get(key, now).filter(|due| *due < envelope.due)
    }

    /// The earlier times, with room for others.
    pub(super) fn earlier_times(&self, now: Timestamp) -> MutexGuard<'_, EarlierTimes> {
        let mut times = self.lock_earlier();
        times.make_room(now);
        times
    }

    fn lock_earlier(&self) -> MutexGuard<'_, EarlierTimes> {
        lock(&self.earlier)
    }

    /// A message that has failed again is another one here.
    pub(super) fn key_of_failure(&self, id: &str, failed_at: Timestamp) -> Key {
        self.hashed((id, failed_at.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: Duration = Duration::from_secs(900);

    #[test]
    fn a_time_stays_until_the_message_must_have_come() {
        let mut times = EarlierTimes::default();
        let (now, due) = (Timestamp(1_000), Timestamp(3_600_000));
        assert!(times.add(1, due, now, HOP));
        assert_eq!((times.get(1, now), times.get(2, now)), (Some(due), None));
        let last = due.plus(HOP + LATE);
        assert_eq!(times.get(1, Timestamp(last.0 - 1)), Some(due));
        assert_eq!(times.get(1, last), None);
        assert_eq!(times.times.capacity(), 0);
        // One that is due already waits for the end of the hop.
        assert!(times.add(1, Timestamp(0), now, HOP));
        assert_eq!(times.get(1, now.plus(HOP)), Some(Timestamp(0)));
    }

    #[test]
    fn of_two_times_the_earlier_one_counts() {
        let mut times = EarlierTimes::default();
        let now = Timestamp(1_000);
        for due in [5_000, 3_000, 4_000] {
            assert!(times.add(1, Timestamp(due), now, HOP));
        }
        assert_eq!(times.get(1, now), Some(Timestamp(3_000)));
    }

    #[test]
    fn the_number_of_times_is_limited_and_old_ones_make_room() {
        let mut times = EarlierTimes::default();
        let (now, later) = (Timestamp(0), Timestamp(10_000_000));
        let all = u64::try_from(TIMES).unwrap();
        let added = (0..all + 10).filter(|key| times.add(*key, now, now, HOP));
        assert_eq!(added.count(), TIMES);
        // A known one needs none.
        assert!(times.add(1, now, now, HOP));
        times.make_room(later);
        assert!(times.add(all, later, later, HOP));
        assert_eq!(times.times.len(), 1);
    }
}
