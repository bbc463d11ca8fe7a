//! The differences between two answers to the same failure.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

use super::answer::RecordedAnswer;
use backstop_core::decision::ErrorClass;
use backstop_core::failure::Milliseconds;

/// One difference between the old and the new answer. The order is by severity, the most severe first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Change {
    /// The old policy answered; the new one breaks.
    Breaks,
    /// The old policy broke; the new one answers.
    Fixed,
    /// Another verdict.
    Verdict {
        /// As in [`RecordedAnswer::verdict`].
        old: &'static str,
        /// As in [`RecordedAnswer::verdict`].
        new: &'static str,
    },
    /// Another class.
    Class {
        /// Its name.
        old: String,
        /// Its name.
        new: String,
    },
    /// Another outage: none, one, or a longer or shorter one.
    Outage {
        /// `none` or `down`. Empty if both are down.
        old: &'static str,
        /// `none`, `down`, `longer` or `shorter`.
        new: &'static str,
    },
    /// The same verdict for another reason.
    Reason,
    /// A longer delay.
    Longer,
    /// A shorter delay.
    Shorter,
}

impl Change {
    /// All differences between `old` and `new`, the most severe first. Two answers of broken policies are the same, whatever the causes.
    pub(super) fn between(old: &RecordedAnswer, new: &RecordedAnswer) -> Vec<Self> {
        let (old_class, new_class) = match (old.class(), new.class()) {
            (None, None) => return Vec::new(),
            (Some(_), None) => return vec![Self::Breaks],
            (None, Some(_)) => return vec![Self::Fixed],
            (Some(old), Some(new)) => (old, new),
        };
        let mut changes = Vec::new();
        let (old_verdict, new_verdict) = (old.verdict(), new.verdict());
        if old_verdict != new_verdict {
            changes.push(Self::Verdict {
                old: old_verdict,
                new: new_verdict,
            });
        }
        if old_class != new_class {
            changes.push(Self::Class {
                old: Self::class_name(old_class),
                new: Self::class_name(new_class),
            });
        }
        changes.extend(Self::of_outages(old.down_for(), new.down_for()));
        if old_verdict == new_verdict && old.reason() != new.reason() {
            changes.push(Self::Reason);
        }
        if let (Some(old), Some(new)) = (old.delay(), new.delay()) {
            match new.cmp(&old) {
                Ordering::Greater => changes.push(Self::Longer),
                Ordering::Less => changes.push(Self::Shorter),
                Ordering::Equal => {}
            }
        }
        changes
    }

    fn of_outages(old: Option<Milliseconds>, new: Option<Milliseconds>) -> Option<Self> {
        let (old, new) = match (old, new) {
            (None, None) => return None,
            (None, Some(_)) => ("none", "down"),
            (Some(_), None) => ("down", "none"),
            (Some(old), Some(new)) => match new.cmp(&old) {
                Ordering::Equal => return None,
                Ordering::Greater => ("", "longer"),
                Ordering::Less => ("", "shorter"),
            },
        };
        Some(Self::Outage { old, new })
    }

    /// The class's name. A policy's own class with the name of a class of the contract is marked as its own.
    pub fn class_name(class: &ErrorClass) -> String {
        let contract = ["transient", "throttled", "permanent"];
        match class {
            ErrorClass::Other(name) if contract.contains(&name.as_str()) => {
                format!("{name} (its own)")
            }
            ErrorClass::Transient
            | ErrorClass::Throttled
            | ErrorClass::Permanent
            | ErrorClass::Other(_) => class.to_string(),
        }
    }

    /// What differs, the old value and the new value, each in a word.
    pub fn words(&self) -> (&'static str, &str, &str) {
        match self {
            Self::Breaks => ("verdict", "answered", "broken"),
            Self::Fixed => ("verdict", "broken", "answers"),
            Self::Verdict { old, new } => ("verdict", old, new),
            Self::Class { old, new } => ("class", old, new),
            Self::Outage { old, new } => ("outage", old, new),
            Self::Reason => ("reason", "", "another"),
            Self::Longer => ("delay", "", "longer"),
            Self::Shorter => ("delay", "", "shorter"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            (what, "", new) => write!(f, "{what}: {new}"),
            (what, old, new) => write!(f, "{what}: {old} → {new}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::decision::FallbackKind;

    fn retry(class: &ErrorClass, delay: Option<u32>) -> RecordedAnswer {
        RecordedAnswer::Retry {
            class: class.clone(),
            delay: delay.map(Milliseconds),
            down_for: None,
        }
    }

    fn letter(class: &ErrorClass, reason: &str) -> RecordedAnswer {
        RecordedAnswer::DeadLetter {
            class: class.clone(),
            reason: reason.to_owned(),
            down_for: None,
        }
    }

    fn broken(cause: &str) -> RecordedAnswer {
        RecordedAnswer::Broken {
            cause: cause.to_owned(),
            kind: FallbackKind::Trapped,
        }
    }

    #[test]
    fn every_difference_is_found_and_nothing_else() {
        let (transient, own) = (
            ErrorClass::Transient,
            ErrorClass::Other("transient".to_owned()),
        );
        for (old, new, expected) in [
            (retry(&transient, Some(5)), retry(&transient, Some(5)), ""),
            (
                retry(&transient, Some(5)),
                retry(&transient, Some(6)),
                "delay: longer",
            ),
            (
                retry(&transient, Some(5)),
                retry(&own, Some(4)),
                "class: transient → transient (its own), delay: shorter",
            ),
            (retry(&transient, None), retry(&transient, Some(6)), ""),
            (
                retry(&transient, None),
                letter(&transient, "a"),
                "verdict: retry → dead-letter",
            ),
            (letter(&transient, "a"), letter(&transient, "a"), ""),
            (
                letter(&transient, "a"),
                letter(&transient, "b"),
                "reason: another",
            ),
            (
                letter(&transient, "a"),
                retry(&transient, Some(1)),
                "verdict: dead-letter → retry",
            ),
            (
                letter(&transient, "a"),
                broken("x"),
                "verdict: answered → broken",
            ),
            (
                broken("x"),
                retry(&transient, Some(1)),
                "verdict: broken → answers",
            ),
            (broken("x"), broken("y"), ""),
        ] {
            let found = Change::between(&old, &new);
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(", "), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn an_outage_is_said_taken_back_or_of_another_length() {
        let says = |down_for: Option<u32>| RecordedAnswer::Retry {
            class: ErrorClass::Transient,
            delay: None,
            down_for: down_for.map(Milliseconds),
        };
        for (old, new, expected) in [
            (None, None, ""),
            (Some(5), Some(5), ""),
            (None, Some(5), "outage: none → down"),
            (Some(5), None, "outage: down → none"),
            (Some(5), Some(6), "outage: longer"),
            (Some(5), Some(4), "outage: shorter"),
        ] {
            let found = Change::between(&says(old), &says(new));
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(", "), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn the_most_severe_change_comes_first() {
        let old = letter(&ErrorClass::Permanent, "a");
        let new = RecordedAnswer::Discard {
            class: ErrorClass::Throttled,
            reason: "b".to_owned(),
            down_for: None,
        };
        let changes = Change::between(&old, &new);
        assert!(changes.is_sorted() && changes.len() == 2, "{changes:?}");
    }
}
