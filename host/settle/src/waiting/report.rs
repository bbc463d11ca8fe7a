//! What waits, for people and programs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::Waiting;
use super::due::{Due, histogram};
use super::filter::{Filter, Matcher};
use super::memory::{Memory, Slot};
use super::packed::Packed;
use super::reach::Reach;
use super::reconsider::Today;
use super::wake::{LEAST, since};
use crate::decision::Hold;
use crate::failure::{Error, Timestamp};

/// The most groups, attempts and policies that a report lists. The rest is counted.
const LISTED: usize = 200;

/// The most ids that are named of a group.
const SAMPLES: usize = 3;

/// The messages of a queue that wait, as one host remembers them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct QueueReport {
    /// The queue's name in the configuration.
    pub queue: String,
    /// Since when the host remembers: its start. It knows nothing of messages that it did not see fail since then.
    pub since: Timestamp,
    /// The messages that wait and match.
    pub waiting: u64,
    /// Of these, the ones that are held by being sent again.
    pub resent: u64,
    /// Messages that wait and are not remembered because there are too many, to the minute. No filter applies to them.
    pub not_remembered: u64,
    /// How many of the invisible messages the host knows.
    #[serde(flatten)]
    pub reach: Reach,
    /// Why the host receives nothing now, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_polled: Option<String>,
    /// Wakes that may still meet messages that are sent again.
    pub wakes: u64,
    /// The messages by code and class, the most first.
    pub groups: Vec<Group>,
    /// The messages by failed attempts.
    pub attempts: Vec<Count<u32>>,
    /// The messages by the digests of the policy that decided.
    pub policies: Vec<Count<String>>,
    /// The messages whose group, attempt or policy is not listed because there are too many different ones.
    pub unlisted: u64,
    /// The messages by due time.
    pub due: Due,
    /// What the queue's messages are grouped by, if they are, such as `/tenant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grouped_by: Option<String>,
    /// The messages by their groups, the most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_group: Vec<GroupCount>,
    /// The messages of groups that are not listed because there are too many different ones.
    #[serde(default)]
    pub by_group_unlisted: u64,
}

/// The messages of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupCount {
    /// The text that they have in common, as one line of at most 128 bytes; empty for messages without one.
    pub value: String,
    /// How many.
    pub count: u64,
    /// When the first of them is due.
    pub next: Timestamp,
    /// When the last of them is due.
    pub last: Timestamp,
}

/// The messages with one code and one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Group {
    /// The error's code. Long ones are cut, or are a digest if the message has been sent again.
    pub code: String,
    /// The class.
    pub class: String,
    /// How many.
    pub count: u64,
    /// When the first of them is due.
    pub next: Timestamp,
    /// When the last of them is due.
    pub last: Timestamp,
    /// The ids of some of them, for `backstop why`: those that are due first.
    pub samples: Vec<String>,
}

/// How many messages have a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Count<T> {
    /// The value.
    pub value: T,
    /// How many.
    pub count: u64,
}

/// What a host remembers of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MessageReport {
    /// The queue's name in the configuration.
    pub queue: String,
    /// The message's id when it was first sent.
    pub id: String,
    /// How it is held.
    pub hold: Hold,
    /// When its next attempt is due.
    pub due: Timestamp,
    /// When it was due as decided, if a wake or a reconsideration has made that earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_due: Option<Timestamp>,
    /// When it becomes visible: earlier than it is due if it is then sent again.
    pub visible: Timestamp,
    /// When it was first sent.
    pub sent: Timestamp,
    /// How often it had been received then.
    pub receives: u32,
    /// Its failed attempts.
    pub attempt: u32,
    /// When the last one failed.
    pub failed_at: Timestamp,
    /// The error's code.
    pub code: String,
    /// The error, if it is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Its class.
    pub class: String,
    /// The digests of the policy that decided.
    pub policy: String,
    /// Its group, if the queue's messages are grouped and it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// What the active version would decide.
    pub today: Today,
}

impl Waiting {
    /// Its queue's name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue's URL, or `local:NAME`.
    pub fn url(&self) -> &str {
        self.queue.url()
    }

    /// Since when it remembers: its start, or that of the process from which it has taken over.
    pub fn since(&self) -> Timestamp {
        Timestamp(self.since.load(Ordering::Relaxed))
    }

    /// How many messages wait.
    pub fn count(&self) -> u64 {
        let memory = self.memory();
        let remembered = u64::try_from(memory.iter().count()).unwrap_or(u64::MAX);
        remembered.saturating_add(memory.not_remembered())
    }

    /// What waits of the messages that match.
    pub async fn report(&self, filter: &Filter) -> QueueReport {
        let reach = self.reach().await;
        QueueReport {
            reach,
            ..self.remembered(filter)
        }
    }

    /// Like [`Waiting::report`], without the queue's own count.
    pub fn remembered(&self, filter: &Filter) -> QueueReport {
        let (now, today) = (self.now(), self.queue.now());
        let wakes = self.rules().len(today) as u64;
        let mut memory = self.memory();
        memory.expire(now, usize::MAX);
        let matcher = Matcher::of(filter);
        let mut tally = Tally::default();
        let matching = memory.iter().map(|(_, slot)| slot);
        let matching = matching.filter(|slot| {
            matcher.matches(self.seen(&memory, slot, |time| since(today, time - now)))
                && matcher.names(|| super::wake::id(&memory, slot))
        });
        for slot in matching {
            tally.add(&memory, slot);
        }
        let time = |at| self.timestamp(at, now);
        let mut groups: Vec<_> = tally.groups.into_iter().collect();
        groups.sort_by_key(|(_, sum)| Reverse(sum.count));
        let groups = groups.into_iter().map(|((code, class), sum)| Group {
            code: code.to_owned(),
            class: class.to_owned(),
            count: sum.count,
            next: time(sum.next),
            last: time(sum.last),
            samples: sum.samples,
        });
        let (by_group, by_group_unlisted) = match self.grouped_by() {
            Some(_) => by_group(tally.by_group, time),
            None => Default::default(),
        };
        QueueReport {
            grouped_by: self.grouped_by().map(str::to_owned),
            by_group,
            by_group_unlisted,
            queue: self.name.clone(),
            since: self.since(),
            waiting: tally.waiting,
            resent: tally.resent,
            not_remembered: memory.not_remembered(),
            reach: Reach::default(),
            not_polled: None,
            wakes,
            groups: groups.collect(),
            attempts: counts(tally.attempts, |attempt| attempt),
            policies: counts(tally.policies, str::to_owned),
            unlisted: tally.unlisted,
            due: histogram(&tally.dues, now, time(now)),
        }
    }

    /// What is remembered of the message with this id: nothing if it does not wait, and more than one thing if copies of it do.
    pub fn message(&self, id: &str) -> Vec<MessageReport> {
        let now = self.now();
        let found: Vec<_> = {
            let mut memory = self.memory();
            memory.expire(now, usize::MAX);
            let slots = memory.iter().map(|(_, slot)| slot);
            let slots = slots.filter(|slot| super::wake::id(&memory, slot) == id);
            slots
                .map(|slot| {
                    let cause = memory.cause(slot);
                    let texts = [cause.code, cause.class, cause.policy, cause.group];
                    let texts = texts.map(str::to_owned);
                    (slot.clone(), memory.packed(slot), texts)
                })
                .collect()
        };
        let report = |(slot, bytes, [code, class, policy, group]): (Slot, Vec<u8>, [String; 4])| {
            let time = |at| self.timestamp(at, now);
            let packed = Packed::read(&bytes)?;
            let failure = self.failure(&bytes, slot.attempt);
            let error = failure.map(|it| it.failure.error);
            let decided = slot.failed.saturating_add(slot.delay.0.into());
            let is_earlier = decided.saturating_sub(slot.due) >= LEAST;
            Some(MessageReport {
                queue: self.name.clone(),
                id: packed.id(),
                hold: slot.hold,
                due: time(slot.due),
                decided_due: is_earlier.then(|| time(decided)),
                visible: time(slot.ends),
                sent: packed.sent(),
                receives: packed.receives(),
                attempt: slot.attempt,
                failed_at: time(slot.failed),
                code: error.as_ref().map_or(code, |error| error.code.clone()),
                error,
                class,
                policy,
                group,
                today: self.today(&slot, &bytes),
            })
        };
        found.into_iter().filter_map(report).collect()
    }
}

#[derive(Debug)]
struct Sum {
    count: u64,
    next: i64,
    last: i64,
    samples: Vec<String>,
}

#[derive(Debug, Default)]
struct Tally<'a> {
    waiting: u64,
    resent: u64,
    groups: BTreeMap<(&'a str, &'a str), Sum>,
    attempts: BTreeMap<u32, u64>,
    policies: BTreeMap<&'a str, u64>,
    unlisted: u64,
    dues: Vec<i64>,
    /// How many, and when the first and the last are due.
    by_group: HashMap<&'a str, (u64, i64, i64)>,
}

impl<'a> Tally<'a> {
    fn add(&mut self, memory: &'a Memory, slot: &Slot) {
        self.waiting += 1;
        self.resent += u64::from(slot.hold == Hold::Resend);
        self.dues.push(slot.due);
        let cause = memory.cause(slot);
        let of_value = self.by_group.entry(cause.group);
        let (count, next, last) = of_value.or_insert((0, slot.due, slot.due));
        *count += 1;
        (*next, *last) = ((*next).min(slot.due), (*last).max(slot.due));
        let group = (cause.code, cause.class);
        let of_group = Sum {
            count: 0,
            next: slot.due,
            last: slot.due,
            samples: Vec::new(),
        };
        let listed = entry(&mut self.groups, group, of_group).map(|sum| {
            sum.count += 1;
            if sum.samples.len() < SAMPLES {
                sum.samples.push(super::wake::id(memory, slot));
            }
            sum.next = sum.next.min(slot.due);
            sum.last = sum.last.max(slot.due);
        });
        let listed = [
            listed,
            entry(&mut self.attempts, slot.attempt, 0).map(|count| *count += 1),
            entry(&mut self.policies, cause.policy, 0).map(|count| *count += 1),
        ];
        self.unlisted += u64::from(listed.contains(&None));
    }
}

/// The largest groups, and how many messages the others have.
fn by_group(
    groups: HashMap<&str, (u64, i64, i64)>,
    time: impl Fn(i64) -> Timestamp,
) -> (Vec<GroupCount>, u64) {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(value, (count, ..))| (Reverse(*count), *value));
    let others = groups.iter().skip(LISTED);
    let unlisted = others.map(|(_, (count, ..))| count).sum();
    let listed = groups.into_iter().take(LISTED);
    let listed = listed.map(|(value, (count, next, last))| GroupCount {
        value: value.to_owned(),
        count,
        next: time(next),
        last: time(last),
    });
    (listed.collect(), unlisted)
}

impl QueueReport {
    /// Adds the groups of another host, if it groups by the same.
    pub fn add_groups(&mut self, other: &Self) {
        if self.grouped_by.is_none() {
            self.grouped_by.clone_from(&other.grouped_by);
        }
        self.by_group_unlisted += other.by_group_unlisted;
        if self.grouped_by != other.grouped_by {
            self.by_group_unlisted += other.by_group.iter().map(|it| it.count).sum::<u64>();
            return;
        }
        let known = self.by_group.iter().enumerate();
        let known = known.map(|(place, it)| (it.value.clone(), place));
        let known: HashMap<_, _> = known.collect();
        for group in &other.by_group {
            let same = known.get(&group.value);
            match same.and_then(|place| self.by_group.get_mut(*place)) {
                Some(sum) => {
                    sum.count += group.count;
                    sum.next = sum.next.min(group.next);
                    sum.last = sum.last.max(group.last);
                }
                None => self.by_group.push(group.clone()),
            }
        }
        self.by_group.sort_by_key(|it| Reverse(it.count));
    }
}

/// The value of a key, if it is among the first [`LISTED`].
fn entry<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, first: V) -> Option<&mut V> {
    let has_room = map.len() < LISTED || map.contains_key(&key);
    has_room.then(|| map.entry(key).or_insert(first))
}

fn counts<K, T>(counts: BTreeMap<K, u64>, value: impl Fn(K) -> T) -> Vec<Count<T>> {
    let counts = counts.into_iter();
    counts
        .map(|(key, count)| Count {
            value: value(key),
            count,
        })
        .collect()
}

impl Group {
    /// Adds the messages of another host.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.next = self.next.min(other.next);
        self.last = self.last.max(other.last);
        self.samples.extend(other.samples.iter().cloned());
        self.samples.truncate(SAMPLES);
    }
}
