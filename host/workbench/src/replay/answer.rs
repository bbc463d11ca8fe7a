//! A policy's answer to a failure. For a recorded decision: as far as it can be reconstructed, and why it can't be compared.

use std::fmt;

use serde::Serialize;

use backstop_core::decision::{
    Action, Answer, DecidedBy, Decision, ErrorClass, FallbackCause, FallbackKind, Verdict,
};
use backstop_core::failure::Milliseconds;
use backstop_engine::EvaluationError;

/// A policy's answer, before the queue limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    tag = "verdict"
)]
pub enum RecordedAnswer {
    /// Retry the message.
    Retry {
        /// The class of the error.
        class: ErrorClass,
        /// After this delay; unknown if a queue limit dead-lettered the message instead.
        delay: Option<Milliseconds>,
        /// How long what is behind the message is down, if the policy says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        down_for: Option<Milliseconds>,
    },
    /// Dead-letter the message.
    DeadLetter {
        /// The class of the error.
        class: ErrorClass,
        /// Why.
        reason: String,
        /// As for a retry.
        #[serde(skip_serializing_if = "Option::is_none")]
        down_for: Option<Milliseconds>,
    },
    /// Discard the message.
    Discard {
        /// The class of the error.
        class: ErrorClass,
        /// Why.
        reason: String,
        /// As for a retry.
        #[serde(skip_serializing_if = "Option::is_none")]
        down_for: Option<Milliseconds>,
    },
    /// No answer: the policy broke.
    Broken {
        /// How, for people.
        cause: String,
        /// How, for programs.
        kind: FallbackKind,
    },
}

impl RecordedAnswer {
    /// The policy's answer that led to a decision. The original of a shortened delay is known; a delay that a queue limit replaced is unknown.
    pub(super) fn recorded(decision: Decision) -> Self {
        if let Some(reason) = decision.kept_from_discarding() {
            return Self::Discard {
                reason: reason.to_owned(),
                class: decision.class,
                down_for: decision.down_for,
            };
        }
        let Decision {
            class,
            action,
            decided_by,
            hold: _,
            down_for,
        } = decision;
        match (decided_by, action) {
            (DecidedBy::Fallback(FallbackCause { kind, text }), _) => Self::Broken {
                cause: text.strip_prefix("the policy ").unwrap_or(&text).to_owned(),
                kind,
            },
            (DecidedBy::Bound(_), _) => Self::Retry {
                class,
                delay: None,
                down_for,
            },
            (DecidedBy::Shortened(delay), _) => Self::Retry {
                class,
                delay: Some(delay),
                down_for,
            },
            (DecidedBy::Policy, action) => Self::of(Answer {
                class,
                action,
                down_for,
            }),
        }
    }

    pub(super) fn of(answer: Answer) -> Self {
        let Answer {
            class,
            action,
            down_for,
        } = answer;
        match action {
            Action::Retry { delay } => Self::Retry {
                class,
                delay: Some(delay),
                down_for,
            },
            Action::DeadLetter { reason } => Self::DeadLetter {
                class,
                reason,
                down_for,
            },
            Action::Discard { reason } => Self::Discard {
                class,
                reason,
                down_for,
            },
        }
    }

    /// The class; `None` for a broken policy.
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
            Self::Retry { .. } => Verdict::Retry.as_str(),
            Self::DeadLetter { .. } => Verdict::DeadLetter.as_str(),
            Self::Discard { .. } => Verdict::Discard.as_str(),
            Self::Broken { .. } => "broken",
        }
    }

    /// The reason of a dead letter or a discard.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::DeadLetter { reason, .. } | Self::Discard { reason, .. } => Some(reason),
            Self::Retry { .. } | Self::Broken { .. } => None,
        }
    }

    /// Whether the delay is known, or there is none.
    pub(super) fn has_known_delay(&self) -> bool {
        !matches!(self, Self::Retry { delay: None, .. })
    }

    /// How long what is behind the message is down, if the policy says so.
    pub fn down_for(&self) -> Option<Milliseconds> {
        match self {
            Self::Retry { down_for, .. }
            | Self::DeadLetter { down_for, .. }
            | Self::Discard { down_for, .. } => *down_for,
            Self::Broken { .. } => None,
        }
    }

    /// The delay of a retry, if it is known.
    pub(super) fn delay(&self) -> Option<Milliseconds> {
        match self {
            Self::Retry { delay, .. } => *delay,
            Self::DeadLetter { .. } | Self::Discard { .. } | Self::Broken { .. } => None,
        }
    }
}

impl fmt::Display for RecordedAnswer {
    /// Without the class: `retry in 2s`, `retry in 2s, down for 5m`, `dead-letter: REASON`, `the policy trapped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry {
                delay: Some(delay), ..
            } => write!(f, "retry in {delay}")?,
            Self::Retry { delay: None, .. } => {
                f.write_str("retry; a queue limit decided instead")?;
            }
            Self::DeadLetter { reason, .. } => write!(f, "dead-letter: {reason}")?,
            Self::Discard { reason, .. } => write!(f, "discard: {reason}")?,
            Self::Broken { cause, .. } => write!(f, "the policy {cause}")?,
        }
        match self.down_for() {
            Some(down_for) => write!(f, ", down for {down_for}"),
            None => Ok(()),
        }
    }
}

impl From<Result<Answer, EvaluationError>> for RecordedAnswer {
    fn from(answer: Result<Answer, EvaluationError>) -> Self {
        match answer {
            Ok(answer) => Self::of(answer),
            Err(error) => Self::Broken {
                cause: error.to_string(),
                kind: error.kind(),
            },
        }
    }
}

/// Why the answers to a record can't be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotComparable {
    /// A policy read parts of the payload that the record does not contain.
    NotRecorded,
    /// A policy exceeded its time limit, which is not deterministic.
    OutOfTime,
    /// The host decided without a policy, since none was active.
    NoPolicy,
    /// The new policy breaks, and a queue limit decided when the record was made, so the record does not show whether the recorded policy broke too.
    Bound,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_answer_is_reconstructed_as_far_as_possible() {
        let retry = |delay: u32| Action::Retry {
            delay: Milliseconds(delay),
        };
        let letter = |reason: &str| Action::DeadLetter {
            reason: reason.to_owned(),
        };
        let class = || ErrorClass::Throttled;
        let retry_after = |delay| RecordedAnswer::Retry {
            class: class(),
            delay,
            down_for: None,
        };
        for (action, decided_by, expected) in [
            (
                retry(5),
                DecidedBy::Policy,
                retry_after(Some(Milliseconds(5))),
            ),
            (
                retry(5),
                DecidedBy::Shortened(Milliseconds(9)),
                retry_after(Some(Milliseconds(9))),
            ),
            (
                letter("the queue's max-attempts of 3 reached"),
                DecidedBy::Bound("the queue's max-attempts of 3 reached".to_owned()),
                retry_after(None),
            ),
            (
                letter("the queue's allow-discard is false: enough"),
                DecidedBy::Bound("the queue's allow-discard is false".to_owned()),
                RecordedAnswer::Discard {
                    class: class(),
                    reason: "enough".to_owned(),
                    down_for: None,
                },
            ),
            (
                letter("enough"),
                DecidedBy::Policy,
                RecordedAnswer::DeadLetter {
                    class: class(),
                    reason: "enough".to_owned(),
                    down_for: None,
                },
            ),
            (
                retry(5),
                DecidedBy::Fallback(FallbackCause::new(
                    FallbackKind::InvalidAnswer,
                    "the policy answered a verdict without a reason",
                )),
                RecordedAnswer::Broken {
                    cause: "answered a verdict without a reason".to_owned(),
                    kind: FallbackKind::InvalidAnswer,
                },
            ),
        ] {
            let found = RecordedAnswer::recorded(Decision {
                class: class(),
                action,
                decided_by,
                hold: Default::default(),
                down_for: None,
            });
            assert_eq!(found, expected);
        }
    }
}
