//! One record put before the policies, and what comes of it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::change::Change;
use super::lines::{Line, LineRef};
use super::recorded::{reveals_broken_policy, unrepeatable};
use super::{RecordedAnswer, Replay};
use backstop::policy::{Evaluation, EvaluationError, PartName, Payload, Policy};
use backstop::record::DecisionRecord;
use backstop_core::decision::Decision;
use backstop_core::failure::Failure;

/// Why a record is counted apart: whether the policies differ on it can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotComparable {
    /// The new policy, or the one that it is compared with, looked at parts of the payload that the record does not hold.
    LookedElsewhere,
    /// One of them ran out of time on the clock, which another machine, or another moment, may give it.
    OutOfTime,
    /// The host decided without a policy: none was at work.
    NoPolicy,
    /// A bound of the queue's decided, so that the record does not tell whether the recorded policy was broken, as the new one is.
    Bound,
}

/// What came of one line.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is no record: why.
    Unreadable(LineRef, String),
    /// It is of a queue that is not asked for, or has no policy.
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
    pub(super) judged: Judged,
}

/// Whether the policies differ.
#[derive(Debug)]
pub(super) enum Judged {
    /// Pointers into the payload that the record does not hold, if that is why.
    NotComparable(NotComparable, BTreeSet<String>),
    /// No change: the same.
    Compared {
        old: RecordedAnswer,
        new: RecordedAnswer,
        changes: Vec<Change>,
        /// The parts of the new policy, where there is a change.
        asked: Vec<PartName>,
    },
}

/// The policy in question, and the one that it is compared with, if there is one.
type Policies<'a> = (Cow<'a, Policy>, Option<Cow<'a, Policy>>);

impl Replay<'_> {
    /// Puts one line before the policies. The same line comes to the same outcome, whatever the thread and the machine.
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
        let judged = match old {
            Some(old) => between(&old, &new, &record.failure, &payload),
            None => since(record.decision, &new, &record.failure, &payload),
        };
        Outcome::Replayed(Box::new(Replayed {
            place: line.place.clone(),
            queue: record.queue,
            recorded: titles.join(" + "),
            failure: record.failure,
            judged,
        }))
    }

    /// None where the record's queue is not asked for, or has no policy.
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

/// Two policies asked about the same failure.
fn between(old: &Policy, new: &Policy, failure: &Failure, payload: &Arc<Payload>) -> Judged {
    let asked = [old, new].map(|policy| policy.evaluate(failure, payload));
    if let Some(apart) = incomparable(&asked) {
        return apart;
    }
    let [old, answer] = asked.map(|asked| RecordedAnswer::from(asked.answer));
    compared(old, answer, new)
}

/// A policy asked about a failure that was decided on before.
fn since(decision: Decision, new: &Policy, failure: &Failure, payload: &Arc<Payload>) -> Judged {
    if let Some(apart) = unrepeatable(&decision.decided_by) {
        return Judged::NotComparable(apart, BTreeSet::new());
    }
    let asked = new.evaluate(failure, payload);
    if let Some(apart) = incomparable(std::slice::from_ref(&asked)) {
        return apart;
    }
    if asked.answer.is_err() && !reveals_broken_policy(&decision, failure) {
        return Judged::NotComparable(NotComparable::Bound, BTreeSet::new());
    }
    compared(RecordedAnswer::recorded(decision), asked.answer.into(), new)
}

/// Why answers can't be compared, if they can't.
fn incomparable(asked: &[Evaluation]) -> Option<Judged> {
    let unknown = asked.iter().flat_map(|asked| &asked.looked_at.unknown);
    let unknown: BTreeSet<_> = unknown.cloned().collect();
    if !unknown.is_empty() {
        return Some(Judged::NotComparable(
            NotComparable::LookedElsewhere,
            unknown,
        ));
    }
    let is_out_of_time =
        |asked: &Evaluation| matches!(asked.answer, Err(EvaluationError::OutOfTime(..)));
    asked
        .iter()
        .any(is_out_of_time)
        .then(|| Judged::NotComparable(NotComparable::OutOfTime, BTreeSet::new()))
}

fn compared(old: RecordedAnswer, new: RecordedAnswer, policy: &Policy) -> Judged {
    let changes = Change::between(&old, &new);
    let asked = match changes.is_empty() {
        true => Vec::new(),
        false => policy.parts().collect(),
    };
    Judged::Compared {
        old,
        new,
        changes,
        asked,
    }
}
