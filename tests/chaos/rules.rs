//! The rules, as far as they can be seen from outside. They are those of the simulation's checker, which sees each request as well.

use serde::Serialize;

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rule {
    Ended,
    Letter,
    LetterKept,
    Once,
    OneLetter,
    NotEarly,
    NotTwiceAtOnce,
    Order,
    Bounded,
    Fallback,
    Host,
    Memory,
    Records,
    Pause,
    Redrive,
    Seen,
}

pub(crate) const ALL: [Rule; 16] = [
    Rule::Ended,
    Rule::Letter,
    Rule::LetterKept,
    Rule::Once,
    Rule::OneLetter,
    Rule::NotEarly,
    Rule::NotTwiceAtOnce,
    Rule::Order,
    Rule::Bounded,
    Rule::Fallback,
    Rule::Host,
    Rule::Memory,
    Rule::Records,
    Rule::Pause,
    Rule::Redrive,
    Rule::Seen,
];

impl Rule {
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Ended => {
                "each message is deleted after a success, or dead, or waits with a due time"
            }
            Self::Letter => {
                "each letter has a reason that was decided for its message, and that its attempts explain"
            }
            Self::LetterKept => {
                "each letter that a host has recorded is in the dead-letter queue, or was moved"
            }
            Self::Once => "a message that has succeeded is not attempted again",
            Self::OneLetter => "a message has one end: a success or a letter, and one letter",
            Self::NotEarly => "no attempt before its due time",
            Self::NotTwiceAtOnce => "no two attempts of a message at the same time",
            Self::Order => {
                "on a FIFO queue, no attempt before the earlier messages of its group have ended"
            }
            Self::Bounded => "no more attempts than the queue allows",
            Self::Fallback => {
                "the fallback decides only while a policy is broken, and never gives up by itself"
            }
            Self::Host => {
                "a host ends when it is stopped and not before, starts again, and does not panic"
            }
            Self::Memory => "a host takes no more than 400 MiB",
            Self::Records => "every line of the records can be read",
            Self::Pause => "no attempt on a queue whose pause was reported",
            Self::Redrive => {
                "letters that a redrive reports as moved have left, and their messages have come back"
            }
            Self::Seen => {
                "nothing is wrong while it runs: see `host`, and what operators were told"
            }
        }
    }
}
