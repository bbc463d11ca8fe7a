//! Replays one record: evaluates the policies and compares the answers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::answer::{NotComparable, RecordedAnswer};
use super::candidate::Replay;
use super::change::Change;
use super::lines::{Line, LineRef, Record};
use super::recorded::{reveals_broken_policy, unrepeatable};
use super::report::Sample;
use backstop_core::decision::Decision;
use backstop_core::failure::Failure;
use backstop_engine::{Evaluation, EvaluationError, Payload, Policy};
use backstop_records::DecisionRecord;

/// The outcome of one line.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is not a record, for this reason.
    Unreadable(LineRef, String),
    /// It is no decision, but an event.
    Event,
    /// It is a record of another queue, or of one without a policy.
    OtherQueue(String),
    Replayed(Box<Replayed>),
}

/// One record, and both answers.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) queue: String,
    /// The recorded policy, for people.
    pub(super) recorded: String,
    /// The answers and their differences: they are the same if there are none.
    pub(super) compared: Result<(Sample, Vec<Change>), Incomparable>,
}

/// The reason, and pointers into the payload that the record lacks, if that is the reason.
pub(super) type Incomparable = (NotComparable, BTreeSet<String>);

/// The old answer and the new one.
type Answers = (RecordedAnswer, RecordedAnswer);

/// The new policy, and the one to compare with, if there is one.
type Policies<'a> = (Cow<'a, Policy>, Option<Cow<'a, Policy>>);

impl Replay<'_> {
    /// Replays one line. The same line gives the same outcome, on any thread and any machine.
    pub(super) fn replay(&self, line: &Line) -> Outcome {
        let record = match line.record() {
            Ok(Record::Decision(record)) => *record,
            Ok(Record::Event(_) | Record::UnknownEvent) => return Outcome::Event,
            Err(why) => return Outcome::Unreadable(line.place.clone(), why),
        };
        let Some((new, old)) = self.policies_for(&record) else {
            return Outcome::OtherQueue(record.queue);
        };
        let titles: Vec<_> = record.policy.iter().map(ToString::to_string).collect();
        let (queue, failure) = (record.queue, record.failure);
        let payload = Arc::new(Payload::recorded(record.payload));
        let answers = match old {
            Some(old) => compare_policies(&old, &new, &failure, &payload),
            None => compare_with_record(record.decision, &new, &failure, &payload),
        };
        let compared = answers.map(|(old, new_answer)| {
            let changes = Change::between(&old, &new_answer);
            let parts = new.parts().filter(|_| !changes.is_empty());
            let sample = Sample {
                place: line.place.clone(),
                queue: queue.clone(),
                failure,
                old,
                new: new_answer,
                policy: parts.collect(),
            };
            (sample, changes)
        });
        Outcome::Replayed(Box::new(Replayed {
            queue,
            recorded: titles.join(" + "),
            compared,
        }))
    }

    /// `None` if the record is of another queue, or of one without a policy.
    fn policies_for(&self, record: &DecisionRecord) -> Option<Policies<'_>> {
        if self.queue.is_some_and(|queue| queue != record.queue) {
            return None;
        }
        let new = self.new.policy_for(record)?;
        let old = match self.old {
            Some(old) => Some(old.policy_for(record)?),
            None => None,
        };
        Some((new, old))
    }
}

/// Compares two policies on the same failure.
fn compare_policies(
    old: &Policy,
    new: &Policy,
    failure: &Failure,
    payload: &Arc<Payload>,
) -> Result<Answers, Incomparable> {
    let evaluations = [old, new].map(|policy| policy.evaluate(failure, payload));
    check_comparable(&evaluations)?;
    let [old, new] = evaluations.map(|evaluation| evaluation.answer.into());
    Ok((old, new))
}

/// Compares a policy with a recorded decision.
fn compare_with_record(
    decision: Decision,
    new: &Policy,
    failure: &Failure,
    payload: &Arc<Payload>,
) -> Result<Answers, Incomparable> {
    if let Some(reason) = unrepeatable(&decision.decided_by) {
        return Err((reason, BTreeSet::new()));
    }
    let evaluation = new.evaluate(failure, payload);
    check_comparable(std::slice::from_ref(&evaluation))?;
    if evaluation.answer.is_err() && !reveals_broken_policy(&decision, failure) {
        return Err((NotComparable::Bound, BTreeSet::new()));
    }
    let recorded = RecordedAnswer::recorded(decision);
    Ok((recorded, evaluation.answer.into()))
}

/// Fails if evaluations can't be compared.
pub(super) fn check_comparable(evaluations: &[Evaluation]) -> Result<(), Incomparable> {
    let unknown = evaluations.iter().flat_map(|it| &it.payload_reads.unknown);
    let unknown: BTreeSet<_> = unknown.cloned().collect();
    if !unknown.is_empty() {
        return Err((NotComparable::NotRecorded, unknown));
    }
    let is_late = |it: &Evaluation| matches!(it.answer, Err(EvaluationError::OutOfTime(..)));
    if evaluations.iter().any(is_late) {
        return Err((NotComparable::OutOfTime, unknown));
    }
    Ok(())
}
