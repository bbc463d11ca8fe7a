//! What a policy said of a failure: of the recorded one what its decision still tells.

use serde::Serialize;

use backstop::policy::EvaluationError;
use backstop_core::decision::{Action, Answer, DecidedBy, Decision, ErrorClass};
use backstop_core::failure::Milliseconds;

/// What a policy said, before the bounds of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum RecordedAnswer {
    /// To try again.
    Retry {
        /// The class of the error.
        class: ErrorClass,
        /// After so long; not known where a bound of the queue's ended the message instead.
        delay: Option<Milliseconds>,
    },
    /// To dead-letter the message.
    DeadLetter {
        /// The class of the error.
        class: ErrorClass,
        /// Why.
        reason: String,
    },
    /// To drop the message.
    Discard {
        /// The class of the error.
        class: ErrorClass,
        /// Why.
        reason: String,
    },
    /// Nothing: it broke.
    Broken {
        /// How.
        cause: String,
    },
}

impl RecordedAnswer {
    /// What a decision tells of the policy's answer: a delay that was cut is known as it was asked for, one that a bound came before is not.
    pub(super) fn recorded(decision: Decision) -> Self {
        if let Some(reason) = decision.kept_from_discarding() {
            return Self::Discard {
                reason: reason.to_owned(),
                class: decision.class,
            };
        }
        let Decision {
            class,
            action,
            decided_by,
        } = decision;
        match (decided_by, action) {
            (DecidedBy::Fallback(cause), _) => Self::Broken {
                cause: cause
                    .strip_prefix("the policy ")
                    .unwrap_or(&cause)
                    .to_owned(),
            },
            (DecidedBy::Bound(_), _) => Self::Retry { class, delay: None },
            (DecidedBy::Shortened(asked), _) => Self::Retry {
                class,
                delay: Some(asked),
            },
            (DecidedBy::Policy, action) => Self::of(class, action),
        }
    }

    fn of(class: ErrorClass, action: Action) -> Self {
        match action {
            Action::Retry { delay } => Self::Retry {
                class,
                delay: Some(delay),
            },
            Action::DeadLetter { reason } => Self::DeadLetter { class, reason },
            Action::Discard { reason } => Self::Discard { class, reason },
        }
    }

    /// The class; none of a policy that broke.
    pub fn class(&self) -> Option<&ErrorClass> {
        match self {
            Self::Retry { class, .. }
            | Self::DeadLetter { class, .. }
            | Self::Discard { class, .. } => Some(class),
            Self::Broken { .. } => None,
        }
    }

    /// `retry`, `dead-letter`, `discard`, or `broken`.
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::DeadLetter { .. } => "dead-letter",
            Self::Discard { .. } => "discard",
            Self::Broken { .. } => "broken",
        }
    }

    /// Why the message is given up, where it is.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::DeadLetter { reason, .. } | Self::Discard { reason, .. } => Some(reason),
            Self::Retry { .. } | Self::Broken { .. } => None,
        }
    }

    /// Whether it is known how long to wait, as far as there is a wait at all.
    pub(super) fn has_known_delay(&self) -> bool {
        !matches!(self, Self::Retry { delay: None, .. })
    }

    /// How long to wait, where that is said and known.
    pub(super) fn delay(&self) -> Option<Milliseconds> {
        match self {
            Self::Retry { delay, .. } => *delay,
            Self::DeadLetter { .. } | Self::Discard { .. } | Self::Broken { .. } => None,
        }
    }
}

impl From<Result<Answer, EvaluationError>> for RecordedAnswer {
    fn from(answer: Result<Answer, EvaluationError>) -> Self {
        match answer {
            Ok(Answer { class, action }) => Self::of(class, action),
            Err(broken) => Self::Broken {
                cause: broken.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_answer_of_a_recorded_policy_is_known_as_far_as_it_can_be() {
        let retry = |delay: u32| Action::Retry {
            delay: Milliseconds(delay),
        };
        let letter = |reason: &str| Action::DeadLetter {
            reason: reason.to_owned(),
        };
        let class = || ErrorClass::Throttled;
        let said = |delay| RecordedAnswer::Retry {
            class: class(),
            delay,
        };
        for (action, decided_by, expected) in [
            (retry(5), DecidedBy::Policy, said(Some(Milliseconds(5)))),
            (
                retry(5),
                DecidedBy::Shortened(Milliseconds(9)),
                said(Some(Milliseconds(9))),
            ),
            (
                letter("the queue's max-attempts of 3 reached"),
                DecidedBy::Bound("the queue's max-attempts of 3 reached".to_owned()),
                said(None),
            ),
            (
                letter("the queue's allow-discard is false: enough"),
                DecidedBy::Bound("the queue's allow-discard is false".to_owned()),
                RecordedAnswer::Discard {
                    class: class(),
                    reason: "enough".to_owned(),
                },
            ),
            (
                letter("enough"),
                DecidedBy::Policy,
                RecordedAnswer::DeadLetter {
                    class: class(),
                    reason: "enough".to_owned(),
                },
            ),
            (
                retry(5),
                DecidedBy::Fallback("the policy answered a verdict without a reason".to_owned()),
                RecordedAnswer::Broken {
                    cause: "answered a verdict without a reason".to_owned(),
                },
            ),
        ] {
            let found = RecordedAnswer::recorded(Decision {
                class: class(),
                action,
                decided_by,
            });
            assert_eq!(found, expected);
        }
    }
}
