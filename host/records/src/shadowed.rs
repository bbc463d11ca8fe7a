//! A shadow's result for a failure, compared with the live decision: the field `shadow` of a decision record.

use serde::{Deserialize, Serialize};

use backstop_core::decision::{Action, Decision, FallbackKind};
use backstop_core::policy::PartName;

/// A shadow's result for one failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shadowed {
    /// The parts of the evaluated shadow; empty if it was not evaluated or could not be loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PartName>,
    /// The result.
    #[serde(flatten)]
    pub outcome: ShadowOutcome,
}

/// The result of passing one failure to a shadow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "kebab-case")]
pub enum ShadowOutcome {
    /// Its decision, compared with the live one.
    Compared {
        /// The shadow's decision, within the same bounds.
        #[serde(flatten)]
        decision: Decision,
        /// Whether both decisions do the same. A different wording of the reason is no disagreement.
        agrees: bool,
        /// What differs.
        differs: Vec<Aspect>,
        /// How long the evaluation took, in microseconds.
        took_us: u64,
    },
    /// It is broken: the fallback would have decided.
    Broken {
        /// How, for people.
        broken: String,
        /// How, for programs. Missing in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<FallbackKind>,
        /// How long the evaluation took, in microseconds.
        took_us: u64,
    },
    /// It was not evaluated, or its answer came too late.
    Skipped {
        /// Why.
        skipped: Skipped,
    },
}

/// A part of a decision that may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// The class of the error.
    Class,
    /// Whether the message is retried, dead-lettered or discarded.
    Verdict,
    /// When it is retried, to the millisecond.
    Delay,
    /// Why it is not retried.
    Reason,
    /// Whether what is behind the message is down, and for how long.
    Outage,
}

/// Why the shadow was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// The shadow could not keep up.
    Slow,
    /// The host ended, or was about to be frozen, before the shadow answered.
    Ended,
}

impl ShadowOutcome {
    /// Compares the shadow's decision with the live one.
    pub fn compared(live: &Decision, decision: Decision, took_us: u64) -> Self {
        let differs = differences(live, &decision);
        Self::Compared {
            agrees: differs.iter().all(|aspect| *aspect == Aspect::Reason),
            decision,
            differs,
            took_us,
        }
    }
}

/// Compares what the host would do: both decisions are within the bounds of the queue.
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
    let outage = (live.down_for != shadow.down_for).then_some(Aspect::Outage);
    class.into_iter().chain(action).chain(outage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::decision::{DecidedBy, ErrorClass};
    use backstop_core::failure::Milliseconds;

    fn decision(class: ErrorClass, action: Action) -> Decision {
        Decision {
            class,
            action,
            decided_by: DecidedBy::Policy,
            hold: Default::default(),
            down_for: None,
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
    fn decisions_differ_in_class_verdict_delay_reason_and_outage() {
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
                decision(Permanent, dead_letter("in different words")),
                vec![Aspect::Reason],
                true,
            ),
            (
                &live,
                Decision {
                    down_for: Some(Milliseconds(60_000)),
                    ..live.clone()
                },
                vec![Aspect::Outage],
                false,
            ),
        ] {
            let compared = ShadowOutcome::compared(live, shadow.clone(), 7);
            let expected = ShadowOutcome::Compared {
                decision: shadow,
                agrees,
                differs: expected,
                took_us: 7,
            };
            assert_eq!(compared, expected);
        }
    }

    #[test]
    fn every_outcome_survives_json() {
        let outcomes = [
            ShadowOutcome::compared(
                &decision(ErrorClass::Transient, retry(1)),
                decision(ErrorClass::Other("cart".to_owned()), dead_letter("no")),
                9,
            ),
            ShadowOutcome::Broken {
                broken: "trapped".to_owned(),
                kind: Some(FallbackKind::Trapped),
                took_us: 3,
            },
            ShadowOutcome::Skipped {
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
