//! What a host has done in each minute of the last day, in memory, for the page's charts; and when the versions of its policies changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use serde::{Deserialize, Serialize};

/// The minutes that are kept: a day.
pub(crate) const MINUTES: usize = 24 * 60;

/// The most swaps that are kept.
const SWAPS: usize = 200;

/// A minute in milliseconds.
const MINUTE: i64 = 60_000;

/// Makes [`Minute`] and [`QueueHistory`] from the list of numbers: counts of a minute, and the last value in it of what goes up and down. The function adds what two hosts say of the same queue.
macro_rules! numbers {
    (counts: $($(#[doc = $count_meaning:literal])+ $count:ident,)* values: $($(#[doc = $value_meaning:literal])+ $value:ident = $add:ident,)*) => {
        /// One minute of a queue.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(crate) struct Minute {
            /// Its number since 1970.
            minute: i64,
            $($count: u64,)*
            $($value: Option<u64>,)*
        }

        impl Minute {
            /// Adds what has happened between two readings, and keeps the last values.
            fn add(&mut self, before: &Reading, now: &Reading) {
                $(self.$count += now.$count.saturating_sub(before.$count);)*
                $(self.$value = now.$value;)*
            }
        }

        /// The counts of a queue since the start, and its values now.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(crate) struct Reading {
            $(pub(crate) $count: u64,)*
            $(pub(crate) $value: Option<u64>,)*
        }

        /// The minutes of one queue: each list has one number for a minute, the oldest first.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct QueueHistory {
            /// The queue's name in the configuration.
            pub queue: String,
            /// When the first minute began.
            pub from: Timestamp,
            $($(#[doc = $count_meaning])+ pub $count: Vec<u64>,)*
            $($(#[doc = $value_meaning])+ pub $value: Vec<Option<u64>>,)*
        }

        impl QueueHistory {
            fn of(queue: &str, from: i64, minutes: &[Minute]) -> Self {
                Self {
                    queue: queue.to_owned(),
                    from: Timestamp(u64::try_from(from * MINUTE).unwrap_or_default()),
                    $($count: minutes.iter().map(|it| it.$count).collect(),)*
                    $($value: minutes.iter().map(|it| it.$value).collect(),)*
                }
            }

            /// Moves the numbers to later or earlier minutes. Those that have no place are dropped.
            pub(crate) fn shift(&mut self, later: usize, earlier: usize) {
                $(shift(&mut self.$count, later, earlier);)*
                $(shift(&mut self.$value, later, earlier);)*
            }

            /// Adds the minutes of another host. Both have the same ones.
            pub(crate) fn add(&mut self, other: &Self) {
                $(together(&mut self.$count, &other.$count, u64::saturating_add);)*
                $(together(&mut self.$value, &other.$value, $add);)*
            }
        }
    };
}

numbers! {
    counts:
    /// Messages handled successfully.
    succeeded,
    /// Failures that are retried.
    retried,
    /// Messages that were dead-lettered.
    dead_lettered,
    /// Messages that the policy discarded.
    discarded,
    values:
    /// Messages that wait for a retry, as this host remembers them.
    waiting = sum,
    /// Messages in hand.
    in_flight = sum,
    /// Visible messages in the queue, if its depth is read.
    visible = max,
    /// Messages in its dead-letter queues, if their depths are read.
    dead_letters = max,
}

fn together<T: Copy + Default>(to: &mut Vec<T>, from: &[T], add: fn(T, T) -> T) {
    to.resize(to.len().max(from.len()), T::default());
    for (to, from) in to.iter_mut().zip(from) {
        *to = add(*to, *from);
    }
}

fn shift<T: Copy + Default>(numbers: &mut Vec<T>, later: usize, earlier: usize) {
    let len = numbers.len();
    numbers.splice(0..0, std::iter::repeat_n(T::default(), later.min(len)));
    numbers.drain(..earlier.min(len));
    numbers.resize(len, T::default());
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// What each host reads of the same queue.
fn max(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.max(other)
}

/// A change of a policy's active version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Swap {
    /// When.
    pub at: Timestamp,
    /// The queue's name in the configuration.
    pub queue: String,
    /// The version that became active.
    pub to: String,
}

/// The last day of a host, as far as it has run.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    queues: BTreeMap<String, Followed>,
    swaps: VecDeque<Swap>,
}

#[derive(Debug, Default)]
struct Followed {
    minutes: VecDeque<Minute>,
    before: Reading,
    version: Option<String>,
}

impl History {
    /// Adds a reading of a queue, whose active version is that of the swap.
    pub(crate) fn read(&self, now: Timestamp, reading: Reading, version: Swap) {
        let mut kept = lock(&self.0);
        let Kept { queues, swaps } = &mut *kept;
        let followed = queues.entry(version.queue.clone()).or_default();
        let this = i64::try_from(now.0).unwrap_or(i64::MAX) / MINUTE;
        // A clock that is set back for a moment adds to the last minute.
        let last = followed.minutes.back().map_or(this, |it| it.minute);
        if last > this + 1 {
            // The clock was ahead, and so are all minutes.
            followed
                .minutes
                .iter_mut()
                .for_each(|it| it.minute -= last - this);
        }
        let last = followed.minutes.back().map_or(this, |it| it.minute);
        let this = this.max(last);
        if followed.minutes.back().is_none_or(|it| it.minute < this) {
            let minute = Minute {
                minute: this,
                ..Minute::default()
            };
            followed.minutes.push_back(minute);
        }
        if followed.minutes.len() > MINUTES {
            followed.minutes.pop_front();
        }
        if let Some(minute) = followed.minutes.back_mut() {
            minute.add(&followed.before, &reading);
        }
        followed.before = reading;
        let before = followed.version.replace(version.to.clone());
        if before.is_some_and(|before| before != version.to) {
            if swaps.len() >= SWAPS {
                swaps.pop_front();
            }
            swaps.push_back(version);
        }
    }

    /// The last minutes of each queue, and the swaps in them.
    pub(crate) fn last(&self, now: Timestamp, minutes: usize) -> (Vec<QueueHistory>, Vec<Swap>) {
        let kept = lock(&self.0);
        let end = i64::try_from(now.0).unwrap_or(i64::MAX) / MINUTE;
        let begin = end - i64::try_from(minutes).unwrap_or(i64::MAX) + 1;
        let queues = kept.queues.iter().map(|(queue, followed)| {
            let mut all: Vec<_> = (begin..=end).map(|_| Minute::default()).collect();
            for known in &followed.minutes {
                let place = usize::try_from(known.minute - begin).ok();
                if let Some(minute) = place.and_then(|place| all.get_mut(place)) {
                    *minute = *known;
                }
            }
            QueueHistory::of(queue, begin, &all)
        });
        let from = u64::try_from(begin * MINUTE).unwrap_or_default();
        let swaps = kept.swaps.iter().filter(|swap| swap.at.0 >= from);
        (queues.collect(), swaps.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap(to: &str) -> Swap {
        Swap {
            at: Timestamp(120_000),
            queue: "orders".to_owned(),
            to: to.to_owned(),
        }
    }

    fn reading(succeeded: u64, waiting: u64) -> Reading {
        Reading {
            succeeded,
            waiting: Some(waiting),
            ..Reading::default()
        }
    }

    #[test]
    fn each_minute_has_what_happened_in_it_and_a_clock_that_is_set_back_loses_nothing() {
        let history = History::default();
        for (time, succeeded, waiting, version) in [
            (60_000, 10, 1, "a"),
            (90_000, 15, 2, "a"),
            (180_000, 40, 3, "b"),
            (120_000, 41, 4, "b"),
        ] {
            history.read(Timestamp(time), reading(succeeded, waiting), swap(version));
        }
        let (queues, swaps) = history.last(Timestamp(200_000), 4);
        let [queue] = queues.as_slice() else {
            panic!("{queues:?}")
        };
        assert_eq!(queue.from, Timestamp(0));
        assert_eq!(queue.succeeded, [0, 15, 0, 26]);
        assert_eq!(queue.waiting, [None, Some(2), None, Some(4)]);
        assert_eq!(swaps, [swap("b")]);
        // An hour ahead, and then right.
        history.read(Timestamp(3_780_000), reading(50, 5), swap("b"));
        history.read(Timestamp(240_000), reading(51, 6), swap("b"));
        let (queues, _) = history.last(Timestamp(240_000), 1);
        assert_eq!(
            queues.first().map(|it| it.succeeded.as_slice()),
            Some(&[10][..])
        );
    }

    #[test]
    fn a_day_is_kept_and_hosts_are_added() {
        let history = History::default();
        for minute in 0..2_000_u64 {
            let reading = reading(minute, minute);
            history.read(Timestamp(minute * 60_000), reading, swap("a"));
        }
        let (queues, _) = history.last(Timestamp(1_999 * 60_000), MINUTES);
        let mut queue = queues.into_iter().next().unwrap();
        assert_eq!(
            (queue.succeeded.len(), queue.waiting[0]),
            (1_440, Some(560))
        );
        let other = queue.clone();
        queue.add(&other);
        assert_eq!((queue.succeeded[5], queue.waiting[5]), (2, Some(1_130)));
    }
}
