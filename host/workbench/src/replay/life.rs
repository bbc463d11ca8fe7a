//! The life of one message: its decision records in their order, and what another policy would answer to each.

use std::sync::Arc;

use backstop_core::decision::{Answer, Bounds, Reach, decide};
use backstop_core::failure::{Failure, Milliseconds, bounded_id};
use backstop_engine::Payload;
use backstop_records::DecisionRecord;
use serde::Serialize;

use super::answer::{NotComparable, RecordedAnswer};
use super::candidate::Candidate;
use super::lines::{Line, LineRef, Lines, ReadError};
use super::replayed::check_comparable;

/// The most records of a message that are kept, the first ones: more than any message has attempts.
const MOST: usize = 10_000;

/// What the records say about one message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Life {
    /// The id as the records have it: one of more than 128 bytes as its digest.
    pub message_id: String,
    /// The decisions in their order.
    pub decisions: Vec<Step>,
    /// How many further records of the message there are.
    pub left_out: u64,
    /// Lines that name the message and are no records: the first of them, and why.
    pub unreadable: Option<(LineRef, String)>,
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
    /// Reads the records of the message with this id out of `lines`. `read` is called with the number of bytes read so far.
    pub fn read(
        message_id: &str,
        lines: &mut Lines,
        candidate: Option<&Candidate>,
        mut read: impl FnMut(u64),
    ) -> Result<Self, ReadError> {
        let mut life = Self {
            message_id: bounded_id(message_id).into_owned(),
            decisions: Vec::new(),
            left_out: 0,
            unreadable: None,
        };
        let quoted = serde_json::Value::from(life.message_id.as_str()).to_string();
        loop {
            let batch = lines.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for line in batch.into_iter().filter(|line| line.contains(&quoted)) {
                life.add(&line, candidate);
            }
            read(lines.bytes_read());
        }
        let order = |step: &Step| (step.record.time, step.record.failure.attempt);
        life.decisions.sort_by_key(order);
        Ok(life)
    }

    fn add(&mut self, line: &Line, candidate: Option<&Candidate>) {
        let record = match line.record() {
            Ok(record) => record,
            Err(why) => {
                let at = || (line.place.clone(), why);
                self.unreadable.get_or_insert_with(at);
                return;
            }
        };
        if record.failure.message_id != self.message_id {
            return;
        }
        if self.decisions.len() == MOST {
            self.left_out += 1;
            return;
        }
        self.decisions.push(Step {
            at: line.place.clone(),
            today: candidate.and_then(|candidate| today(candidate, &record)),
            record,
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
