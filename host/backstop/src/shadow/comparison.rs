//! What a shadow made of a failure, beside what the live policy did: the field `shadow` of a decision record.

use serde::{Deserialize, Serialize};

use crate::decision::{Action, Decision};
use crate::policy::PartName;

/// What came of putting one failure before a shadow too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shadowed {
    /// The parts of the shadow that was asked; none where it was not asked, or could not be loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PartName>,
    /// What it said.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What a shadow said of one failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "kebab-case")]
pub enum Outcome {
    /// Its decision, and how that compares.
    Compared {
        /// What would have been done, within the same bounds.
        #[serde(flatten)]
        decision: Decision,
        /// Whether the same would have been done: a reason in other words is no disagreement.
        agrees: bool,
        /// What differs.
        differs: Vec<Aspect>,
        /// How long asking took, in microseconds.
        took_us: u64,
    },
    /// It broke: the fallback would have decided.
    Broken {
        /// How.
        broken: String,
        /// How long asking took, in microseconds.
        took_us: u64,
    },
    /// It was not asked, or not waited for.
    Skipped {
        /// Why.
        skipped: Skipped,
    },
}

/// In what two decisions may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// The class of the error.
    Class,
    /// Whether the message is tried again, dead-lettered or discarded.
    Verdict,
    /// When it is tried again, to the millisecond.
    Delay,
    /// Why it is not.
    Reason,
}

/// Why there is no comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// The shadow could not keep up.
    Slow,
    /// The host ended, or was about to be frozen, before the shadow had answered.
    Ended,
}

impl Outcome {
    /// The shadow's decision beside the live one.
    pub(super) fn compared(live: &Decision, decision: Decision, took_us: u64) -> Self {
        let differs = differences(live, &decision);
        Self::Compared {
            agrees: differs.iter().all(|aspect| *aspect == Aspect::Reason),
            decision,
            differs,
            took_us,
        }
    }
}

/// What is compared is what is done: both decisions are within the bounds of the queue already.
fn differences(live: &Decision, shadow: &Decision) -> Vec<Aspect> {
    let class = (live.class != shadow.class).then_some(Aspect::Class);
    let action = match (&live.action, &shadow.action) {
        (Action::Retry { delay: one }, Action::Retry { delay: other }) => {
            (one != other).then_some(Aspect::Delay)
        }
        (Action::DeadLetter { reason: one }, Action::DeadLetter { reason: other })
        | (Action::Discard { reason: one }, Action::Discard { reason: other }) => {
            (one != other).then_some(Aspect::Reason)
        }
        (Action::Retry { .. } | Action::DeadLetter { .. } | Action::Discard { .. }, _) => {
            Some(Aspect::Verdict)
        }
    };
    class.into_iter().chain(action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{DecidedBy, ErrorClass};
    use crate::failure::Milliseconds;

    fn decision(class: ErrorClass, action: Action) -> Decision {
        Decision {
            class,
            action,
            decided_by: DecidedBy::Policy,
        }
    }

    fn retry(milliseconds: u32) -> Action {
        Action::Retry {
            delay: Milliseconds(milliseconds),
        }
    }

    fn dead_letter(reason: &str) -> Action {
        Action::DeadLetter {
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn decisions_differ_in_class_verdict_delay_and_reason() {
        use ErrorClass::{Permanent, Transient};
        let live = decision(Transient, retry(1_000));
        let dead = decision(Permanent, dead_letter("permanent"));
        let discarded = Action::Discard {
            reason: "permanent".to_owned(),
        };
        for (live, shadow, expected, agrees) in [
            (&live, live.clone(), vec![], true),
            (
                &live,
                decision(Transient, retry(1_001)),
                vec![Aspect::Delay],
                false,
            ),
            (
                &live,
                decision(Permanent, retry(1_000)),
                vec![Aspect::Class],
                false,
            ),
            (
                &live,
                dead.clone(),
                vec![Aspect::Class, Aspect::Verdict],
                false,
            ),
            (
                &dead,
                decision(Permanent, discarded),
                vec![Aspect::Verdict],
                false,
            ),
            (
                &dead,
                decision(Permanent, dead_letter("in other words")),
                vec![Aspect::Reason],
                true,
            ),
        ] {
            let compared = Outcome::compared(live, shadow.clone(), 7);
            let expected = Outcome::Compared {
                decision: shadow,
                agrees,
                differs: expected,
                took_us: 7,
            };
            assert_eq!(compared, expected);
        }
    }

    #[test]
    fn every_outcome_is_read_as_it_was_written() {
        let outcomes = [
            Outcome::compared(
                &decision(ErrorClass::Transient, retry(1)),
                decision(ErrorClass::Other("cart".to_owned()), dead_letter("no")),
                9,
            ),
            Outcome::Broken {
                broken: "trapped".to_owned(),
                took_us: 3,
            },
            Outcome::Skipped {
                skipped: Skipped::Slow,
            },
        ];
        for outcome in outcomes {
            let shadowed = Shadowed {
                policy: Vec::new(),
                outcome,
            };
            let text = serde_json::to_string(&shadowed).unwrap();
            let read: Shadowed = serde_json::from_str(&text).unwrap();
            assert_eq!(read, shadowed, "{text}");
        }
    }
}
