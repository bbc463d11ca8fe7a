//! The decision, and who made it: the policy, a bound, or the fallback.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::answer::{Action, ErrorClass};
use super::hold::Hold;
use crate::failure::Milliseconds;

/// What the host does about one failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The class of the error.
    pub class: ErrorClass,
    /// What happens to the message.
    #[serde(flatten)]
    pub action: Action,
    /// Who decided.
    #[serde(flatten)]
    pub decided_by: DecidedBy,
    /// How a message that is retried is held until then.
    #[serde(default, skip_serializing_if = "Hold::is_visibility")]
    pub hold: Hold,
    /// How long, from the failure, what is behind the message is down, as the policy says. It is the policy's even if a bound decides about the message.
    #[serde(default, rename = "down-for", skip_serializing_if = "Option::is_none")]
    pub down_for: Option<Milliseconds>,
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub enum DecidedBy {
    /// The policy, unchanged.
    Policy,
    /// The policy, with its delay cut from this one to what the queue allows.
    Shortened(Milliseconds),
    /// A bound of the queue: which.
    Bound(String),
    /// The fallback, because the policy is broken.
    Fallback(FallbackCause),
}

impl DecidedBy {
    /// `policy`, `shortened`, `bound` or `fallback`, spelled the same in logs, metrics and decision records.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Shortened(_) => "shortened",
            Self::Bound(_) => "bound",
            Self::Fallback(_) => "fallback",
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the fallback decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackCause {
    /// What went wrong, for programs.
    pub kind: FallbackKind,
    /// What went wrong, for people: `the policy ran out of fuel after 50000000 units in delay`.
    pub text: String,
}

impl FallbackCause {
    /// A cause of this kind, explained by `text`.
    pub fn new(kind: FallbackKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }
}

/// What went wrong when the fallback had to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackKind {
    /// The policy executed more instructions than allowed. Deterministic.
    OutOfFuel,
    /// The policy ran for longer than allowed.
    OutOfTime,
    /// The policy requested more memory, or another resource, than allowed. Deterministic.
    OutOfBounds,
    /// The policy trapped. Deterministic.
    Trapped,
    /// The policy rejected its settings. Deterministic.
    RejectedSettings,
    /// The policy has settings but does not accept any. Deterministic.
    NoSettings,
    /// The policy gave an invalid answer. Deterministic.
    InvalidAnswer,
    /// No policy is loaded.
    NotLoaded,
    /// The host failed while it evaluated the policy.
    HostFailed,
}

impl FallbackKind {
    /// The kind that the text of a record without `kind` describes. The first builds wrote these words and no `kind`.
    fn from_text(text: &str) -> Self {
        const TEXTS: [(&str, FallbackKind); 8] = [
            ("ran out of fuel ", FallbackKind::OutOfFuel),
            ("was stopped after ", FallbackKind::OutOfTime),
            ("wanted more ", FallbackKind::OutOfBounds),
            ("failed in ", FallbackKind::Trapped),
            ("refuses its settings", FallbackKind::RejectedSettings),
            ("takes no settings", FallbackKind::NoSettings),
            ("answered ", FallbackKind::InvalidAnswer),
            ("is not at work", FallbackKind::NotLoaded),
        ];
        let Some(broken) = text.strip_prefix("the policy ") else {
            return Self::HostFailed;
        };
        let known = TEXTS.iter().find(|(start, _)| broken.starts_with(start));
        known.map_or(Self::Trapped, |(_, kind)| *kind)
    }
}

/// A [`DecidedBy`] in a decision record: `by`, `cause` and, for the fallback, `kind`.
#[derive(Serialize, Deserialize)]
struct Recorded {
    #[serde(flatten)]
    by: By,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<FallbackKind>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by", content = "cause")]
enum By {
    Policy,
    Shortened(Milliseconds),
    Bound(String),
    Fallback(String),
}

impl From<DecidedBy> for Recorded {
    fn from(decided_by: DecidedBy) -> Self {
        let (by, kind) = match decided_by {
            DecidedBy::Policy => (By::Policy, None),
            DecidedBy::Shortened(delay) => (By::Shortened(delay), None),
            DecidedBy::Bound(bound) => (By::Bound(bound), None),
            DecidedBy::Fallback(FallbackCause { kind, text }) => (By::Fallback(text), Some(kind)),
        };
        Self { by, kind }
    }
}

impl From<Recorded> for DecidedBy {
    fn from(Recorded { by, kind }: Recorded) -> Self {
        match by {
            By::Policy => Self::Policy,
            By::Shortened(delay) => Self::Shortened(delay),
            By::Bound(bound) => Self::Bound(bound),
            By::Fallback(text) => Self::Fallback(FallbackCause {
                kind: kind.unwrap_or_else(|| FallbackKind::from_text(&text)),
                text,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_kind_next_to_the_cause() {
        let cause = FallbackCause::new(FallbackKind::OutOfFuel, "the policy ran out of fuel");
        for (decided_by, expected) in [
            (DecidedBy::Policy, r#"{"by":"policy"}"#),
            (
                DecidedBy::Shortened(Milliseconds(7)),
                r#"{"by":"shortened","cause":7}"#,
            ),
            (
                DecidedBy::Bound("b".to_owned()),
                r#"{"by":"bound","cause":"b"}"#,
            ),
            (
                DecidedBy::Fallback(cause),
                r#"{"by":"fallback","cause":"the policy ran out of fuel","kind":"out-of-fuel"}"#,
            ),
        ] {
            let text = serde_json::to_string(&decided_by).unwrap();
            assert_eq!(text, expected);
            assert_eq!(
                serde_json::from_str::<DecidedBy>(&text).unwrap(),
                decided_by
            );
        }
    }

    #[test]
    fn a_record_without_a_kind_has_the_one_that_its_cause_describes() {
        for (cause, expected) in [
            (
                "the policy ran out of fuel after 5 units in delay",
                FallbackKind::OutOfFuel,
            ),
            (
                "the policy was stopped after 2s in delay",
                FallbackKind::OutOfTime,
            ),
            (
                "the policy wanted more memory than its limit and gave up in delay",
                FallbackKind::OutOfBounds,
            ),
            (
                "the policy failed in delay: unreachable",
                FallbackKind::Trapped,
            ),
            (
                "the policy refuses its settings: base",
                FallbackKind::RejectedSettings,
            ),
            (
                "the policy takes no settings, but has base: it does not export backstop:policy/settings",
                FallbackKind::NoSettings,
            ),
            (
                "the policy answered a verdict without a reason",
                FallbackKind::InvalidAnswer,
            ),
            (
                "the policy is not at work: can't read the policy",
                FallbackKind::NotLoaded,
            ),
            (
                "the host failed while it asked the policy",
                FallbackKind::HostFailed,
            ),
        ] {
            let record = serde_json::json!({"by": "fallback", "cause": cause});
            let read: DecidedBy = serde_json::from_value(record).unwrap();
            let expected = FallbackCause::new(expected, cause);
            assert_eq!(read, DecidedBy::Fallback(expected));
        }
    }
}
