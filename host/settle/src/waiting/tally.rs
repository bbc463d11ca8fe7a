//! What waits, in numbers for metrics: counted in one pass over the memory, each time that they are read.

use std::time::Duration;

use super::Waiting;
use super::causes::{HELD_BACK, is_held_back};
use super::memory::Slot;
use crate::decision::Hold;
use crate::telemetry::Classes;

/// The times within which messages are counted as due, with their names.
pub const WITHIN: [(&str, Duration); 4] = [
    ("1m", Duration::from_secs(60)),
    ("5m", Duration::from_secs(300)),
    ("15m", Duration::from_secs(900)),
    ("1h", Duration::from_secs(3_600)),
];

/// What waits of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Each class with the messages that are held by visibility, and those that are sent again. All named classes are there, and `held-back`.
    pub classes: Vec<(String, [u64; 2])>,
    /// Messages that are not remembered because there are too many.
    pub not_remembered: u64,
    /// The age of the oldest message since it was sent.
    pub oldest: Option<Duration>,
    /// The time until the next message is due.
    pub next_due: Option<Duration>,
    /// The messages that are due within each of [`WITHIN`].
    pub due: [u64; WITHIN.len()],
    /// The groups of a FIFO queue whose first message waits.
    pub blocked_groups: u64,
}

impl Tally {
    fn add(&mut self, slot: &Slot, class: usize, now: i64) {
        let by_hold = self.classes.get_mut(class).map(|(_, counts)| counts);
        if let Some([visibility, resend]) = by_hold {
            match slot.hold {
                Hold::Visibility => *visibility += 1,
                Hold::Resend => *resend += 1,
            }
        }
        let (age, left) = (milliseconds(now - slot.sent), milliseconds(slot.due - now));
        self.oldest = self.oldest.max(Some(age));
        self.next_due = Some(self.next_due.map_or(left, |next| next.min(left)));
        for (count, (_, within)) in self.due.iter_mut().zip(WITHIN) {
            *count += u64::from(left <= within);
        }
    }
}

fn milliseconds(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or_default())
}

impl Waiting {
    /// Counts what waits, by the classes that have a name.
    pub fn tally(&self, named: &Classes) -> Tally {
        let names = named.names().filter(|name| *name != HELD_BACK);
        let mut tally = Tally {
            classes: names
                .chain([HELD_BACK])
                .map(|name| (name.to_owned(), [0; 2]))
                .collect(),
            ..Tally::default()
        };
        let held_back = tally.classes.len() - 1;
        let now = self.now();
        let mut memory = self.memory();
        memory.expire(now, usize::MAX);
        tally.not_remembered = memory.not_remembered();
        // Most messages have the cause of the one before: its class is not looked up again.
        let mut last = None;
        for slot in memory.slots() {
            let class = match last {
                Some((cause, class)) if cause == slot.cause => class,
                Some(_) | None => {
                    let cause = memory.cause(slot);
                    let name = if is_held_back(&cause) {
                        HELD_BACK
                    } else {
                        named.name(cause.class)
                    };
                    let place = tally.classes.iter().position(|(class, _)| class == name);
                    place.unwrap_or(held_back)
                }
            };
            last = Some((slot.cause, class));
            tally.add(slot, class, now);
        }
        if self.fifo {
            // A group has one such message: SQS delivers none behind it.
            tally.blocked_groups = tally.classes.iter().map(|(_, [hidden, _])| hidden).sum();
        }
        tally
    }

    /// Whether a message that was not sent again waits.
    pub fn has(&self, id: &str) -> bool {
        let key = self.key(id, false, "");
        let now = self.now();
        let memory = self.memory();
        memory.find(key).is_some_and(|(_, slot)| slot.ends > now)
    }
}
