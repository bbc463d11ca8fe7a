//! One record put before the policies, and what comes of it.

use serde::Serialize;

use super::change::Change;
use super::lines::{Line, Place};
use super::{Replay, Said};
use crate::decision::{DecidedBy, Decision};
use crate::failure::Failure;
use crate::fallback;
use crate::policy::{Asked, Broken, PartName, Payload, Phase, Policy};
use crate::record::DecisionRecord;

/// Why a record is counted apart: whether the policies differ on it can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Apart {
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
    Unreadable(Place, String),
    /// It is of a queue that is not asked for, or has no policy.
    OtherQueue(String),
    Replayed(Box<Replayed>),
}

/// One record, and both answers.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) place: Place,
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
    Apart(Apart, Vec<String>),
    /// No change: the same.
    Compared {
        old: Said,
        new: Said,
        changes: Vec<Change>,
        /// The parts of the new policy, where there is a change.
        asked: Vec<PartName>,
    },
}

impl Replay<'_> {
    /// Puts one line before the policies. The same line comes to the same outcome, whatever the thread and the machine.
    pub(super) fn replay(&self, line: &Line) -> Outcome {
        let record = match read(line.text.as_deref()) {
            Ok(record) => record,
            Err(why) => return Outcome::Unreadable(line.place.clone(), why),
        };
        if self.queue.is_some_and(|queue| queue != record.queue) {
            return Outcome::OtherQueue(record.queue);
        }
        let Some(new) = self.new.policy_for(&record) else {
            return Outcome::OtherQueue(record.queue);
        };
        let titles: Vec<_> = record.policy.iter().map(ToString::to_string).collect();
        let old = match self.old {
            Some(old) => old.policy_for(&record),
            None => None,
        };
        let DecisionRecord {
            queue,
            failure,
            payload,
            decision,
            ..
        } = record;
        let payload = Payload::recorded(payload).into();
        let judged = match (old, unrepeatable(&decision.decided_by)) {
            (Some(old), _) => {
                let old = old.ask(&failure, &payload);
                let asked = new.ask(&failure, &payload);
                judge(&payload, Some(&old), &asked)
                    .unwrap_or_else(|| compare(old.answer.into(), asked.answer.into(), &new))
            }
            (None, Some(apart)) => Judged::Apart(apart, Vec::new()),
            (None, None) => {
                let asked = new.ask(&failure, &payload);
                judge(&payload, None, &asked).unwrap_or_else(|| {
                    if asked.answer.is_err() && !tells_of_breaking(&decision, &failure) {
                        return Judged::Apart(Apart::Bound, Vec::new());
                    }
                    compare(Said::recorded(decision), asked.answer.into(), &new)
                })
            }
        };
        Outcome::Replayed(Box::new(Replayed {
            place: line.place.clone(),
            queue,
            recorded: titles.join(" + "),
            failure,
            judged,
        }))
    }
}

fn compare(old: Said, new: Said, policy: &Policy) -> Judged {
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

/// Why the answers can't be compared, if they can't.
fn judge(payload: &Payload, old: Option<&Asked>, new: &Asked) -> Option<Judged> {
    let asked = || old.into_iter().chain([new]);
    let pointers = asked().flat_map(|asked| asked.looked_at.keys());
    let unknown: Vec<_> = pointers
        .filter(|pointer| !payload.knows(pointer))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Some(Judged::Apart(Apart::LookedElsewhere, unknown));
    }
    let is_out_of_time = |asked: &Asked| matches!(asked.answer, Err(Broken::OutOfTime(..)));
    asked()
        .any(is_out_of_time)
        .then(|| Judged::Apart(Apart::OutOfTime, Vec::new()))
}

/// Why the policy that was recorded may do otherwise when it is asked again, if it may.
fn unrepeatable(decided_by: &DecidedBy) -> Option<Apart> {
    let DecidedBy::Fallback(cause) = decided_by else {
        return None;
    };
    // A record has the words of `Broken` alone.
    let Some(broken) = cause.strip_prefix("the policy ") else {
        return Some(Apart::NoPolicy);
    };
    let words = |broken: Broken| {
        let words = broken.to_string();
        words.split_inclusive(' ').take(3).collect::<String>()
    };
    let out_of_time = Broken::OutOfTime(std::time::Duration::ZERO, Phase::Start);
    if broken.starts_with(&words(out_of_time)) {
        return Some(Apart::OutOfTime);
    }
    broken
        .starts_with(&Broken::NotLoaded(String::new()).to_string())
        .then_some(Apart::NoPolicy)
}

/// Whether a record tells if its policy was broken. Where a bound decided it does not, unless the class is another than the fallback's.
fn tells_of_breaking(decision: &Decision, failure: &Failure) -> bool {
    !matches!(decision.decided_by, DecidedBy::Bound(_))
        || decision.class != fallback::class(&failure.error)
}

/// The record that a line is; why it is none.
fn read(text: Option<&[u8]>) -> Result<DecisionRecord, String> {
    let text = text.ok_or("longer than any record")?;
    serde_json::from_slice(text.trim_ascii_end()).map_err(|error| {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let why = error.to_string();
        let why = why.strip_suffix(&place).unwrap_or(&why);
        match error.classify() {
            serde_json::error::Category::Eof => {
                format!("cut short after {} bytes", error.column())
            }
            serde_json::error::Category::Data => format!("no decision record: {why}"),
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
                format!("no JSON: {why}, at byte {}", error.column())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_clock_or_a_missing_policy_did_is_not_repeated() {
        let stopped = Broken::OutOfTime(Duration::from_secs(2), Phase::Delay);
        let absent = Broken::NotLoaded("can't read the policy".to_owned());
        let fuel = Broken::OutOfFuel(5, Phase::Delay);
        for (cause, expected) in [
            (format!("the policy {stopped}"), Some(Apart::OutOfTime)),
            (format!("the policy {absent}"), Some(Apart::NoPolicy)),
            (format!("the policy {fuel}"), None),
            (
                "the host failed while it asked the policy".to_owned(),
                Some(Apart::NoPolicy),
            ),
        ] {
            let found = unrepeatable(&DecidedBy::Fallback(cause.clone()));
            assert_eq!(found, expected, "{cause}");
        }
        assert_eq!(unrepeatable(&DecidedBy::Policy), None);
    }

    #[test]
    fn a_line_that_is_no_record_says_why() {
        for (text, expected) in [
            ("{\"time\":1,\"queue\":\"or\r\n", "cut short after 21 bytes"),
            (r#"{"level":"info"}"#, "no decision record: missing field `"),
            ("ready to serve", "no JSON: expected value, at byte 1"),
            ("[1]", "no decision record: "),
        ] {
            let why = read(Some(text.as_bytes())).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        assert_eq!(read(None).unwrap_err(), "longer than any record");
    }
}
