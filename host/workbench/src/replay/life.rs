//! The life of one message: its decision records and events in their order, and what another policy would answer to each failure.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use backstop_core::decision::{Answer, Bounds, Reach, decide};
use backstop_core::failure::{Failure, Milliseconds, Timestamp};
use backstop_engine::Payload;
use backstop_records::{DecisionRecord, EventRecord, LifeEvent};
use serde::Serialize;

use super::answer::{NotComparable, RecordedAnswer};
use super::candidate::Candidate;
use super::known_ids::KnownIds;
use super::lines::{Line, LineRef, Lines, ReadError, Record};
use super::replayed::check_comparable;

/// The most events of a queue, and the most queues: pauses of others hide no line of the message.
const MOST_OF_QUEUE: usize = 1_000;
const MOST_QUEUES: usize = 100;

/// The most lines about a message that are kept, the first ones: more than any message has attempts.
const MOST: usize = 10_000;

/// The most bytes of these lines.
const MOST_BYTES: usize = 256 << 20;

/// What names an event of a queue in a line.
const OF_QUEUES: [&str; 2] = [r#""event":"paused""#, r#""event":"resumed""#];

/// What the records say about one message.
#[derive(Debug, Default)]
pub struct Life {
    /// The decisions in their order.
    pub decisions: Vec<Step>,
    /// What happened between them, to the message and meanwhile to its queues, in its order.
    pub events: Vec<Happened>,
    /// How many further records of the message there are.
    pub left_out: u64,
    /// How many further events of queues there are.
    pub left_out_of_queues: u64,
    /// Lines that name the message and are no records: the first of them, and why.
    pub unreadable: Option<(LineRef, String)>,
    /// The lines so far, by their hashes: the same file may be given twice, also compressed.
    seen: HashSet<u64>,
    lines: usize,
    bytes: usize,
    /// The events of each queue so far.
    of_queues: BTreeMap<String, usize>,
    hasher: RandomState,
}

/// One decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Step {
    /// Its file and line.
    pub at: LineRef,
    /// The record.
    pub record: DecisionRecord,
    /// What the other policy answers, if there is one for the record's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today: Option<Today>,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Happened {
    /// Its file and line.
    pub at: LineRef,
    /// The record.
    #[serde(flatten)]
    pub record: EventRecord,
}

/// What another policy answers to a recorded failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Today {
    /// Its answer: within the limits of the queue if they are known, as those of a configuration are.
    Answer(RecordedAnswer),
    /// The record does not have what the policy reads, or the policy took too long.
    Unknown(NotComparable),
}

impl Life {
    /// Reads the records of the message with these ids out of `lines`, and adds the ids that they name. Lines that came before one which names a further id may be missing: read them again with all ids. `read` is called with the number of bytes read so far.
    pub fn read(
        ids: &mut KnownIds,
        lines: &mut Lines,
        read: impl FnMut(u64),
    ) -> Result<Self, ReadError> {
        let mut life = Self::default();
        lines.naming(ids, &OF_QUEUES, read, |ids, line| life.add(ids, line))?;
        let order = |step: &Step| (step.record.time, step.record.failure.attempt);
        life.decisions.sort_by_key(order);
        life.events.sort_by_key(|it| it.record.time);
        life.keep_events_meanwhile();
        Ok(life)
    }

    /// Adds what this policy answers to each failure.
    pub fn answered_by(mut self, candidate: &Candidate) -> Self {
        for step in &mut self.decisions {
            step.today = today(candidate, &step.record);
        }
        self
    }

    fn add(&mut self, ids: &mut KnownIds, line: &Line) {
        let record = match line.record() {
            Ok(record) => record,
            Err(why) => {
                if ids.occur_in(line.text()) {
                    let at = || (line.place.clone(), why);
                    self.unreadable.get_or_insert_with(at);
                }
                return;
            }
        };
        let is_of_message = match &record {
            Record::Decision(record) => ids.link(record.ids().collect::<Vec<_>>().into_iter()),
            Record::Event(record) => match &record.message {
                Some(message) => {
                    let all = message.iter().chain(record.event.new_id());
                    ids.link(all.collect::<Vec<_>>().into_iter())
                }
                None => true,
            },
            Record::UnknownEvent => false,
        };
        if !is_of_message || !self.seen.insert(self.hasher.hash_one(line.text())) {
            return;
        }
        if let Record::Event(event) = &record
            && event.message.is_none()
        {
            let known = self.of_queues.len();
            match self.of_queues.get_mut(&event.queue) {
                Some(count) if *count < MOST_OF_QUEUE => *count += 1,
                None if known < MOST_QUEUES => drop(self.of_queues.insert(event.queue.clone(), 1)),
                Some(_) | None => {
                    self.left_out_of_queues += 1;
                    return;
                }
            }
            let at = line.place.clone();
            let record = event.as_ref().clone();
            self.events.push(Happened { at, record });
            return;
        }
        self.lines += 1;
        self.bytes += line.text().len();
        if self.lines > MOST || self.bytes > MOST_BYTES {
            self.left_out += 1;
            return;
        }
        let at = line.place.clone();
        match record {
            Record::Decision(record) => self.decisions.push(Step {
                at,
                today: None,
                record: *record,
            }),
            Record::Event(record) => self.events.push(Happened {
                at,
                record: *record,
            }),
            Record::UnknownEvent => {}
        }
    }

    /// Leaves out what happened to other queues, and to these before or after the message's own time. Of what happened before, a pause that had not ended stays.
    fn keep_events_meanwhile(&mut self) {
        let own = self.events.iter().filter(|it| it.record.message.is_some());
        let own = own.map(|it| (it.record.time, it.record.queue.clone()));
        let decided = self.decisions.iter();
        let decided = decided.map(|it| (it.record.time, it.record.queue.clone()));
        let mut times = BTreeMap::<String, (Timestamp, Timestamp)>::new();
        for (time, queue) in own.chain(decided) {
            let (first, last) = times.entry(queue).or_insert((time, time));
            (*first, *last) = ((*first).min(time), (*last).max(time));
        }
        let mut before = BTreeMap::<String, usize>::new();
        for (number, it) in self.events.iter().enumerate() {
            let first = times.get(&it.record.queue).map(|(first, _)| *first);
            if it.record.message.is_none() && first.is_some_and(|first| it.record.time < first) {
                before.insert(it.record.queue.clone(), number);
            }
        }
        let mut number = 0;
        self.events.retain(|it| {
            let place = number;
            number += 1;
            let Some((first, last)) = times.get(&it.record.queue) else {
                return false;
            };
            let is_meanwhile = (first..=last).contains(&&it.record.time);
            let is_pause = matches!(it.record.event, LifeEvent::Paused { .. });
            let goes_on = is_pause && before.get(&it.record.queue) == Some(&place);
            it.record.message.is_some() || is_meanwhile || goes_on
        });
    }
}

/// What a host with these limits would do. How long a message can be held is left out, as it depends on when it was received.
fn within(failure: &Failure, answer: Answer, bounds: &Bounds) -> RecordedAnswer {
    let reach = Reach::visibility(Milliseconds(u32::MAX), failure.age);
    let decision = decide(failure, Ok(answer), bounds, reach);
    RecordedAnswer::of(Answer {
        class: decision.class,
        action: decision.action,
        down_for: decision.down_for,
    })
}

/// `None` if the record's queue has no policy.
fn today(candidate: &Candidate, record: &DecisionRecord) -> Option<Today> {
    let policy = candidate.policy_for(record)?;
    let payload = Arc::new(Payload::recorded(record.payload.clone()));
    let evaluation = policy.evaluate(&record.failure, &payload);
    if let Err((reason, _)) = check_comparable(std::slice::from_ref(&evaluation)) {
        return Some(Today::Unknown(reason));
    }
    let answer = match (evaluation.answer, candidate.bounds_for(record)) {
        (Ok(answer), Some(bounds)) => within(&record.failure, answer, bounds),
        (answer, _) => answer.into(),
    };
    Some(Today::Answer(answer))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;

    fn decision(time: u64, id: &str, more: Value) -> Value {
        let mut record = json!({
            "time": time,
            "queue": "orders",
            "policy": [],
            "failure": {
                "message-id": id,
                "source": "local:orders",
                "attempt": 1,
                "age": 1,
                "failed-at": time,
                "error": {"code": "HTTP 503", "message": ""},
                "random": 0.5,
            },
            "class": "transient",
            "verdict": "retry",
            "delay": 1_000,
            "by": "policy",
            "fuel": 1,
            "took-us": 1,
        });
        for (name, value) in more.as_object().unwrap() {
            match name.as_str() {
                "attributes" => record["failure"][name] = value.clone(),
                name => record[name] = value.clone(),
            }
        }
        record
    }

    fn event(time: u64, queue: &str, fields: &Value) -> Value {
        let mut record = json!({"time": time, "queue": queue});
        let record = record.as_object_mut().unwrap();
        record.extend(fields.as_object().unwrap().clone());
        json!(record)
    }

    fn life_of(id: &str, files: &[PathBuf]) -> (Life, KnownIds) {
        let mut ids = KnownIds::of(id);
        loop {
            let before = ids.count();
            let mut lines = Lines::of(files.to_vec());
            let life = Life::read(&mut ids, &mut lines, |_| {}).unwrap();
            if ids.count() == before {
                return (life, ids);
            }
        }
    }

    #[test]
    fn pauses_of_queues_hide_no_line_of_a_message() {
        let paused = json!({"event": "paused", "by": "ann"});
        let (mut text, number) = (String::new(), MOST_OF_QUEUE as u64 + 5);
        for time in 0..number {
            text += &format!("{}\n", event(time, "others", &paused));
        }
        for queue in 0..MOST_QUEUES {
            text += &format!("{}\n", event(number, &format!("q{queue}"), &paused));
        }
        text += &format!("{}\n", decision(number + 1, "m-1", json!({})));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let (life, _) = life_of("m-1", &[file.path().to_owned()]);
        assert_eq!((life.decisions.len(), life.left_out), (1, 0));
        assert_eq!(life.left_out_of_queues, 6);
    }

    #[test]
    fn records_of_all_ids_are_one_life_and_what_happened_to_its_queue_meanwhile_belongs_to_it() {
        let paused = json!({"event": "paused", "by": "ann"});
        let resumed = json!({"event": "resumed", "by": "ann"});
        let died = json!({"message-id": "m-2", "event": "dead-lettered", "reason": "r", "dead-letter-queue": "dead", "letter-id": "letter"});
        let done =
            json!({"message-id": "m-3", "original-id": "m-1", "event": "succeeded", "attempt": 1});
        let lines = [
            event(1, "orders", &paused),
            event(2, "orders", &resumed),
            event(3, "orders", &paused),
            decision(10, "m-1", json!({"received-as": "copy"})),
            decision(11, "other", json!({})),
            event(20, "others", &paused),
            event(21, "orders", &resumed),
            event(
                25,
                "orders",
                &json!({"message-id": "m-1", "event": "teleported"}),
            ),
            // A copy on a host that could not verify it.
            decision(30, "m-2", json!({"original-id": "m-1"})),
            event(31, "orders", &died),
            // As an earlier version wrote it.
            decision(
                40,
                "m-3",
                json!({"attributes": [["BackstopMessageId", "m-1"]]}),
            ),
            event(50, "orders", &done),
            event(60, "orders", &paused),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        // The order of lines means nothing.
        let text: Vec<_> = lines.iter().rev().map(|it| format!("{it}\n")).collect();
        std::fs::write(&path, text.concat()).unwrap();
        for id in ["m-1", "m-2", "m-3", "copy", "letter"] {
            let (life, ids) = life_of(id, &[path.clone(), path.clone()]);
            assert_eq!(ids.count(), 5, "{id}");
            let times = |times: &mut dyn Iterator<Item = Timestamp>| -> Vec<u64> {
                times.map(|time| time.0).collect()
            };
            let decided = times(&mut life.decisions.iter().map(|it| it.record.time));
            assert_eq!(decided, [10, 30, 40], "{id}");
            let happened = times(&mut life.events.iter().map(|it| it.record.time));
            assert_eq!(happened, [3, 21, 31, 50], "{id}");
            assert_eq!((life.left_out, life.unreadable), (0, None));
        }
        let (other, _) = life_of("other", &[path]);
        assert_eq!((other.decisions.len(), other.events.len()), (1, 1));
    }
}
