//! What a policy answers to a failure.

use std::fmt;

use backstop_backoff::Class;
use serde::{Deserialize, Serialize};

use crate::failure::Milliseconds;

/// The longest valid delay: SQS keeps a message for at most 14 days.
pub const LONGEST_DELAY: Milliseconds = Milliseconds(backstop_backoff::LONGEST_DELAY);

/// The longest name of a class that a policy defines itself, in bytes.
pub const CLASS_BYTES: usize = 128;

/// The longest reason, in bytes. A longer one is cut.
pub const REASON_BYTES: usize = 1024;

/// What kind of failure an error is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// Likely to go away without intervention.
    Transient,
    /// The failing service asks for less load.
    Throttled,
    /// Every further attempt will fail.
    Permanent,
    /// A class that the policy defines itself.
    Other(String),
}

impl ErrorClass {
    /// The default class with the same name. `None` for a class of a policy's own.
    pub const fn known(&self) -> Option<Class> {
        match self {
            Self::Transient => Some(Class::Transient),
            Self::Throttled => Some(Class::Throttled),
            Self::Permanent => Some(Class::Permanent),
            Self::Other(_) => None,
        }
    }
}

impl From<Class> for ErrorClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Transient => Self::Transient,
            Class::Throttled => Self::Throttled,
            Class::Permanent => Self::Permanent,
        }
    }
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

/// What happens to the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Action {
    /// It is retried after the delay.
    Retry {
        /// From the failure to the next attempt.
        delay: Milliseconds,
    },
    /// It is moved to the dead-letter queue.
    DeadLetter {
        /// Why; not empty.
        reason: String,
    },
    /// It is deleted.
    Discard {
        /// Why; not empty.
        reason: String,
    },
}

impl fmt::Display for Action {
    /// `retry in 2s`, `dead-letter: REASON` or `discard: REASON`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry { delay } => write!(f, "retry in {delay}"),
            Self::DeadLetter { reason } => write!(f, "dead-letter: {reason}"),
            Self::Discard { reason } => write!(f, "discard: {reason}"),
        }
    }
}

impl Action {
    /// The verdict without its delay or reason.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Retry { .. } => Verdict::Retry,
            Self::DeadLetter { .. } => Verdict::DeadLetter,
            Self::Discard { .. } => Verdict::Discard,
        }
    }
}

crate::names! {
    /// The name of an [`Action`], spelled the same in logs, metrics, tables and decision records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// See [`Action::Retry`].
        Retry = "retry",
        /// See [`Action::DeadLetter`].
        DeadLetter = "dead-letter",
        /// See [`Action::Discard`].
        Discard = "discard",
    }
}

/// A policy's answer to one failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The class of the error.
    pub class: ErrorClass,
    /// What should happen to the message.
    pub action: Action,
    /// How long, from the failure, what is behind the message is down. `None` says nothing.
    pub down_for: Option<Milliseconds>,
}

/// The policy's answer is invalid, and the fallback decides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnswer {
    /// See [`LONGEST_DELAY`].
    #[error("a delay of {0}, more than the 14d that SQS keeps a message")]
    Delay(Milliseconds),
    /// See [`LONGEST_DELAY`].
    #[error("an outage of {0}, more than the 14d that SQS keeps a message")]
    Outage(Milliseconds),
    /// A dead letter and a discarded message need a reason.
    #[error("a verdict without a reason")]
    Reason,
    /// See [`CLASS_BYTES`].
    #[error("a class of its own whose name has {0} bytes, not 1 to {CLASS_BYTES}")]
    Class(usize),
}

impl Answer {
    /// An answer that says nothing about an outage.
    pub const fn new(class: ErrorClass, action: Action) -> Self {
        Self {
            class,
            action,
            down_for: None,
        }
    }

    /// Checks the answer and cuts a long reason to [`REASON_BYTES`]. An outage of no time is none.
    pub fn validate(mut self) -> Result<Self, InvalidAnswer> {
        if let ErrorClass::Other(name) = &self.class
            && !(1..=CLASS_BYTES).contains(&name.len())
        {
            return Err(InvalidAnswer::Class(name.len()));
        }
        self.down_for = self.down_for.filter(|time| *time > Milliseconds(0));
        if let Some(down_for) = self.down_for.filter(|time| *time > LONGEST_DELAY) {
            return Err(InvalidAnswer::Outage(down_for));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(delay: u32) -> Answer {
        Answer::new(
            ErrorClass::Transient,
            Action::Retry {
                delay: Milliseconds(delay),
            },
        )
    }

    fn dead_letter(reason: &str) -> Answer {
        Answer::new(
            ErrorClass::Permanent,
            Action::DeadLetter {
                reason: reason.to_owned(),
            },
        )
    }

    #[test]
    fn an_invalid_answer_is_rejected() {
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
    fn a_long_reason_is_cut() {
        let cut = dead_letter(&"x".repeat(REASON_BYTES + 1))
            .validate()
            .unwrap();
        assert_eq!(cut, dead_letter(&"x".repeat(REASON_BYTES)));
    }
}
