//! What comes out of a decision, and the bounds that the host keeps whatever a policy says.
//!
//! `Answer` is what a policy (or the host's fallback) says; [`Bounds::keep`] makes a [`Decision`] of it, which the host then applies.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Milliseconds};

/// SQS keeps a message for 14 days at most: a longer delay is no answer.
pub const LONGEST_DELAY: Milliseconds = Milliseconds(14 * 86_400_000);

/// The longest name of a class of a policy's own, in bytes.
pub const CLASS_BYTES: usize = 128;

/// The longest reason that is kept, in bytes; a longer one is cut.
pub const REASON_BYTES: usize = 1024;

/// What kind of failure an error is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// Likely to pass by itself.
    Transient,
    /// The other side asks for less load.
    Throttled,
    /// Will fail again however often it is tried.
    Permanent,
    /// A class of the policy's own.
    Other(String),
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Permanent => "permanent",
            Self::Other(name) => name,
        })
    }
}

/// What becomes of the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Action {
    /// Tried again after the delay.
    Retry {
        /// From the failure to the next attempt.
        delay: Milliseconds,
    },
    /// Moved to the dead-letter queue.
    DeadLetter {
        /// Why; not empty.
        reason: String,
    },
    /// Dropped.
    Discard {
        /// Why; not empty.
        reason: String,
    },
}

impl Action {
    /// `retry`, `dead-letter` or `discard`: in logs, metrics and tables as in a decision record.
    pub fn verdict(&self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::DeadLetter { .. } => "dead-letter",
            Self::Discard { .. } => "discard",
        }
    }
}

/// What a policy says of one failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The class of the error.
    pub class: ErrorClass,
    /// What should become of the message.
    pub action: Action,
}

/// An answer that no policy can mean: the fallback decides instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnswer {
    /// See [`LONGEST_DELAY`].
    #[error("a delay of {0}, more than the 14d that SQS keeps a message")]
    Delay(Milliseconds),
    /// A dead letter or a discarded message must say why.
    #[error("a verdict without a reason")]
    Reason,
    /// See [`CLASS_BYTES`].
    #[error("a class of its own whose name has {0} bytes, not 1 to {CLASS_BYTES}")]
    Class(usize),
}

impl Answer {
    /// The answer, if it can be meant; a long reason is cut to [`REASON_BYTES`].
    pub fn validate(mut self) -> Result<Self, InvalidAnswer> {
        if let ErrorClass::Other(name) = &self.class
            && !(1..=CLASS_BYTES).contains(&name.len())
        {
            return Err(InvalidAnswer::Class(name.len()));
        }
        match &mut self.action {
            Action::Retry { delay } if *delay > LONGEST_DELAY => Err(InvalidAnswer::Delay(*delay)),
            Action::Retry { .. } => Ok(self),
            Action::DeadLetter { reason } | Action::Discard { reason } => {
                if reason.trim().is_empty() {
                    return Err(InvalidAnswer::Reason);
                }
                crate::text::cut(reason, REASON_BYTES);
                Ok(self)
            }
        }
    }
}

/// Whose word a decision is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by", content = "cause")]
pub enum DecidedBy {
    /// The policy's, as it stands.
    Policy,
    /// The policy's, its delay cut from the one given here to what the queue allows.
    Shortened(Milliseconds),
    /// A bound of the queue's: which.
    Bound(String),
    /// The host's, since the policy is broken: how.
    Fallback(String),
}

impl DecidedBy {
    /// `policy`, `shortened`, `bound` or `fallback`: in logs and metrics as in a decision record.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Shortened(_) => "shortened",
            Self::Bound(_) => "bound",
            Self::Fallback(_) => "fallback",
        }
    }
}

/// What the host does about one failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The class of the error.
    pub class: ErrorClass,
    /// What becomes of the message.
    #[serde(flatten)]
    pub action: Action,
    /// Whose word it is.
    #[serde(flatten)]
    pub decided_by: DecidedBy,
}

/// Whose word it is that a message is dead-lettered which the policy wanted to discard.
const NO_DISCARD: &str = "the queue's allow-discard is false";

impl Decision {
    /// The reason with which the policy wanted to discard a message that [`Bounds::allow_discard`] had dead-lettered instead.
    pub fn kept_from_discarding(&self) -> Option<&str> {
        match (&self.decided_by, &self.action) {
            (DecidedBy::Bound(bound), Action::DeadLetter { reason }) if bound == NO_DISCARD => {
                reason.strip_prefix(NO_DISCARD)?.strip_prefix(": ")
            }
            _ => None,
        }
    }
}

/// What the operator and the queue hold a policy to. By default nothing is bounded, and a policy may discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// No message has more attempts.
    pub max_attempts: Option<NonZeroU32>,
    /// No message is tried again from this age: the age that it will have then.
    pub max_age: Option<Milliseconds>,
    /// When the queue drops a message, counted from when it was sent: it is dead-lettered before.
    pub retention: Option<Milliseconds>,
    /// Whether a message is dropped when the policy says so; it is dead-lettered otherwise.
    pub allow_discard: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_attempts: None,
            max_age: None,
            retention: None,
            allow_discard: true,
        }
    }
}

impl Bounds {
    /// The decision that `answer` comes to. `room` is the longest delay that the queue allows for this message now.
    ///
    /// A retry may become a shorter one or a dead letter, and a discard a dead letter: what a policy gives up on stays given up on.
    pub fn keep(
        &self,
        failure: &Failure,
        answer: Answer,
        decided_by: DecidedBy,
        room: Milliseconds,
    ) -> Decision {
        let Answer { class, action } = answer;
        let asked = match action {
            Action::Retry { delay } => delay,
            Action::Discard { reason } if !self.allow_discard => {
                return Decision {
                    class,
                    action: Action::DeadLetter {
                        reason: format!("{NO_DISCARD}: {reason}"),
                    },
                    decided_by: DecidedBy::Bound(NO_DISCARD.to_owned()),
                };
            }
            Action::DeadLetter { .. } | Action::Discard { .. } => {
                return Decision {
                    class,
                    action,
                    decided_by,
                };
            }
        };
        let delay = asked.min(room);
        if let Some(bound) = self.crossed_by(failure, delay) {
            let reason = format!("{bound}: {}", failure.error.code);
            return Decision {
                class,
                action: Action::DeadLetter { reason },
                decided_by: DecidedBy::Bound(bound),
            };
        }
        let decided_by = match decided_by {
            DecidedBy::Policy if delay < asked => DecidedBy::Shortened(asked),
            DecidedBy::Policy
            | DecidedBy::Shortened(_)
            | DecidedBy::Bound(_)
            | DecidedBy::Fallback(_) => decided_by,
        };
        Decision {
            class,
            action: Action::Retry { delay },
            decided_by,
        }
    }

    fn crossed_by(&self, failure: &Failure, delay: Milliseconds) -> Option<String> {
        if let Some(most) = self.max_attempts
            && failure.attempt >= most
        {
            return Some(format!("the queue's max-attempts of {most} reached"));
        }
        let next = failure.age.0.saturating_add(delay.0);
        if let Some(oldest) = self.max_age
            && next >= oldest.0
        {
            return Some(format!("the queue's max-age of {oldest} reached"));
        }
        if let Some(retention) = self.retention
            && next >= retention.0.saturating_sub(retention_margin(retention))
        {
            return Some(format!(
                "the next attempt would come after the queue's retention of {retention}"
            ));
        }
        None
    }
}

/// What is kept of the retention for the next attempt to be received in, in milliseconds: five minutes, or a tenth where that is less.
fn retention_margin(retention: Milliseconds) -> u32 {
    (retention.0 / 10).min(5 * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Error, Timestamp};

    fn failure(attempt: u32, age: u32) -> Failure {
        Failure {
            message_id: "m".to_owned(),
            source: "local:q".to_owned(),
            attempt: NonZeroU32::new(attempt).unwrap(),
            age: Milliseconds(age),
            failed_at: Timestamp(0),
            previous_delay: None,
            error: Error::new("HTTP 503", ""),
            attributes: Vec::new(),
            random: 0.0,
        }
    }

    fn retry(delay: u32) -> Answer {
        Answer {
            class: ErrorClass::Transient,
            action: Action::Retry {
                delay: Milliseconds(delay),
            },
        }
    }

    fn dead_letter(reason: &str) -> Answer {
        Answer {
            class: ErrorClass::Permanent,
            action: Action::DeadLetter {
                reason: reason.to_owned(),
            },
        }
    }

    #[test]
    fn a_senseless_answer_is_refused() {
        let class = |name: &str| Answer {
            class: ErrorClass::Other(name.to_owned()),
            ..retry(0)
        };
        for (answer, expected) in [
            (retry(LONGEST_DELAY.0), None),
            (
                retry(LONGEST_DELAY.0 + 1),
                Some(InvalidAnswer::Delay(Milliseconds(LONGEST_DELAY.0 + 1))),
            ),
            (dead_letter("because"), None),
            (dead_letter(" \n"), Some(InvalidAnswer::Reason)),
            (
                Answer {
                    action: Action::Discard {
                        reason: String::new(),
                    },
                    ..retry(0)
                },
                Some(InvalidAnswer::Reason),
            ),
            (class("cart"), None),
            (class(""), Some(InvalidAnswer::Class(0))),
            (class(&"x".repeat(129)), Some(InvalidAnswer::Class(129))),
        ] {
            assert_eq!(answer.validate().err(), expected);
        }
    }

    #[test]
    fn a_decision_is_spelled_in_logs_and_metrics_as_in_its_record() {
        let reason = "because".to_owned();
        let actions = [
            retry(1).action,
            dead_letter("because").action,
            Action::Discard { reason },
        ];
        let deciders = [
            DecidedBy::Policy,
            DecidedBy::Shortened(Milliseconds(1)),
            DecidedBy::Bound("b".to_owned()),
            DecidedBy::Fallback("f".to_owned()),
        ];
        let classes = [
            ErrorClass::Transient,
            ErrorClass::Throttled,
            ErrorClass::Permanent,
        ];
        for action in &actions {
            for decided_by in &deciders {
                for class in &classes {
                    let record = serde_json::to_value(Decision {
                        class: class.clone(),
                        action: action.clone(),
                        decided_by: decided_by.clone(),
                    })
                    .unwrap();
                    assert_eq!(record["verdict"], action.verdict());
                    assert_eq!(record["by"], decided_by.name());
                    assert_eq!(record["class"], class.to_string());
                }
            }
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        let cut = dead_letter(&"x".repeat(REASON_BYTES + 1))
            .validate()
            .unwrap();
        assert_eq!(cut, dead_letter(&"x".repeat(REASON_BYTES)));
    }

    #[test]
    fn the_host_keeps_its_bounds_whatever_the_policy_says() {
        let bounds = Bounds {
            max_attempts: NonZeroU32::new(5),
            max_age: Some(Milliseconds(60_000)),
            retention: Some(Milliseconds(60_000)),
            ..Bounds::default()
        };
        let room = Milliseconds(40_000);
        for (attempt, age, asked, expected) in [
            (1, 0, 1_000, Ok((1_000, DecidedBy::Policy))),
            (
                1,
                0,
                50_000,
                Ok((40_000, DecidedBy::Shortened(Milliseconds(50_000)))),
            ),
            (4, 52_999, 1_000, Ok((1_000, DecidedBy::Policy))),
            (5, 0, 1_000, Err("the queue's max-attempts of 5 reached")),
            (1, 59_000, 1_000, Err("the queue's max-age of 1m reached")),
            (
                1,
                53_000,
                1_000,
                Err("the next attempt would come after the queue's retention of 1m"),
            ),
        ] {
            let decision = bounds.keep(
                &failure(attempt, age),
                retry(asked),
                DecidedBy::Policy,
                room,
            );
            let (action, decided_by) = match expected {
                Ok((delay, by)) => (
                    Action::Retry {
                        delay: Milliseconds(delay),
                    },
                    by,
                ),
                Err(bound) => (
                    Action::DeadLetter {
                        reason: format!("{bound}: HTTP 503"),
                    },
                    DecidedBy::Bound(bound.to_owned()),
                ),
            };
            assert_eq!(
                decision,
                Decision {
                    class: ErrorClass::Transient,
                    action,
                    decided_by
                }
            );
        }
    }

    #[test]
    fn a_discard_is_dead_lettered_where_the_operator_allows_none() {
        let discard = |allow_discard| {
            let answer = Answer {
                action: Action::Discard {
                    reason: "too late".to_owned(),
                },
                ..retry(0)
            };
            let bounds = Bounds {
                allow_discard,
                ..Bounds::default()
            };
            bounds.keep(&failure(1, 0), answer, DecidedBy::Policy, Milliseconds(0))
        };
        let allowed = discard(true);
        assert!(matches!(allowed.action, Action::Discard { .. }));
        assert_eq!(allowed.decided_by, DecidedBy::Policy);
        assert_eq!(allowed.kept_from_discarding(), None);
        let kept = discard(false);
        let bound = "the queue's allow-discard is false";
        assert_eq!(kept.decided_by, DecidedBy::Bound(bound.to_owned()));
        assert_eq!(
            kept.action,
            Action::DeadLetter {
                reason: format!("{bound}: too late")
            }
        );
        assert_eq!(kept.kept_from_discarding(), Some("too late"));
    }

    #[test]
    fn what_the_policy_gives_up_on_stays_given_up_on() {
        let decision = Bounds::default().keep(
            &failure(1, 0),
            dead_letter("because"),
            DecidedBy::Policy,
            Milliseconds(0),
        );
        assert_eq!(decision.action, dead_letter("because").action);
    }
}
