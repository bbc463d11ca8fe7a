//! Replays one record: evaluates the policies and compares the answers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::answer::NotComparable;
use super::answer::RecordedAnswer;
use super::candidate::Replay;
use super::change::Change;
use super::lines::{Line, LineRef};
use super::recorded::{reveals_broken_policy, unrepeatable};
use backstop_core::decision::Decision;
use backstop_core::failure::Failure;
use backstop_engine::{Evaluation, EvaluationError, PartName, Payload, Policy};
use backstop_records::DecisionRecord;

/// The outcome of one line.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is not a record, for this reason.
    Unreadable(LineRef, String),
    /// It is a record of another queue, or of one without a policy.
    OtherQueue(String),
    Replayed(Box<Replayed>),
}

/// One record, and both answers.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) place: LineRef,
    pub(super) queue: String,
    /// The recorded policy, for people.
    pub(super) recorded: String,
    pub(super) failure: Failure,
    pub(super) comparison: Comparison,
}

/// The comparison of both answers.
#[derive(Debug)]
pub(super) enum Comparison {
    /// The reason, and pointers into the payload that the record lacks, if that is the reason.
    NotComparable(NotComparable, BTreeSet<String>),
    /// The answers are the same if there is no change.
    Compared {
        old: RecordedAnswer,
        new: RecordedAnswer,
        changes: Vec<Change>,
        /// The parts of the new policy, if there is a change.
        policy: Vec<PartName>,
    },
}

/// The new policy, and the one to compare with, if there is one.
type Policies<'a> = (Cow<'a, Policy>, Option<Cow<'a, Policy>>);

impl Replay<'_> {
    /// Replays one line. The same line gives the same outcome, on any thread and any machine.
    pub(super) fn replay(&self, line: &Line) -> Outcome {
        let record = match line.record() {
            Ok(record) => record,
            Err(why) => return Outcome::Unreadable(line.place.clone(), why),
        };
        let Some((new, old)) = self.policies_for(&record) else {
            return Outcome::OtherQueue(record.queue);
        };
        let titles: Vec<_> = record.policy.iter().map(ToString::to_string).collect();
        let payload = Arc::new(Payload::recorded(record.payload));
        let comparison = match old {
            Some(old) => compare_policies(&old, &new, &record.failure, &payload),
            None => compare_with_record(record.decision, &new, &record.failure, &payload),
        };
        Outcome::Replayed(Box::new(Replayed {
            place: line.place.clone(),
            queue: record.queue,
            recorded: titles.join(" + "),
            failure: record.failure,
            comparison,
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
) -> Comparison {
    let evaluations = [old, new].map(|policy| policy.evaluate(failure, payload));
    if let Some(reason) = incomparable(&evaluations) {
        return reason;
    }
    let [old, answer] = evaluations.map(|evaluation| RecordedAnswer::from(evaluation.answer));
    compared(old, answer, new)
}

/// Compares a policy with a recorded decision.
fn compare_with_record(
    decision: Decision,
    new: &Policy,
    failure: &Failure,
    payload: &Arc<Payload>,
) -> Comparison {
    if let Some(reason) = unrepeatable(&decision.decided_by) {
        return Comparison::NotComparable(reason, BTreeSet::new());
    }
    let evaluation = new.evaluate(failure, payload);
    if let Some(reason) = incomparable(std::slice::from_ref(&evaluation)) {
        return reason;
    }
    if evaluation.answer.is_err() && !reveals_broken_policy(&decision, failure) {
        return Comparison::NotComparable(NotComparable::Bound, BTreeSet::new());
    }
    compared(
        RecordedAnswer::recorded(decision),
        evaluation.answer.into(),
        new,
    )
}

/// The reason why evaluations can't be compared, if there is one.
fn incomparable(evaluations: &[Evaluation]) -> Option<Comparison> {
    let unknown = evaluations
        .iter()
        .flat_map(|evaluation| &evaluation.payload_reads.unknown);
    let unknown: BTreeSet<_> = unknown.cloned().collect();
    if !unknown.is_empty() {
        return Some(Comparison::NotComparable(
            NotComparable::NotRecorded,
            unknown,
        ));
    }
    let is_out_of_time =
        |evaluation: &Evaluation| matches!(evaluation.answer, Err(EvaluationError::OutOfTime(..)));
    evaluations
        .iter()
        .any(is_out_of_time)
        .then(|| Comparison::NotComparable(NotComparable::OutOfTime, BTreeSet::new()))
}

fn compared(old: RecordedAnswer, new: RecordedAnswer, policy: &Policy) -> Comparison {
    let changes = Change::between(&old, &new);
    let policy = if changes.is_empty() {
        Vec::new()
    } else {
        policy.parts().collect()
    };
    Comparison::Compared {
        old,
        new,
        changes,
        policy,
    }
}
