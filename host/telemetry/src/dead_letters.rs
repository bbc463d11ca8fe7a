//! Counts dead letters by class and version, with a bound on the values of both labels.

use std::sync::Mutex;

use backstop_core::decision::{Action, Decision};
use backstop_core::lock::lock;
use metrics::Counter;

use super::{CLASSES, OTHER, Queue};

/// The most versions that are counted by themselves in one process.
const VERSIONS: usize = 64;

/// The digits of a digest, as in the metric of the active versions.
const DIGITS: usize = 12;

/// The version of a message that no policy was evaluated for.
const NONE: &str = "none";

/// Who decides that a message is dead-lettered.
const POLICY: &str = "policy";
const BOUND: &str = "bound";
const HOST: &str = "host";

/// The dead letters of one queue.
pub struct DeadLetters {
    queue: Queue,
    classes: Classes,
    versions: Mutex<Vec<String>>,
}

backstop_core::shown!(DeadLetters);

impl DeadLetters {
    /// The dead letters of this queue, whose configuration names these classes.
    pub fn of(queue: &str, named: impl IntoIterator<Item = String>) -> Self {
        let dead_letters = Self {
            queue: Queue::named(queue),
            classes: Classes::of(named),
            versions: Mutex::default(),
        };
        dead_letters.counter(HOST, OTHER, NONE).increment(0);
        dead_letters
    }

    /// The classes that have a name of their own.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// A version is active. Creates its counters at 0, for an alert on their increase.
    pub fn version(&self, digests: &str) {
        let digest = self.digest(digests);
        for by in [POLICY, BOUND] {
            for class in self.classes.names() {
                self.counter(by, class, &digest).increment(0);
            }
        }
    }

    /// The counter of a letter: the decision and the digests of the version, or `None` if no policy was evaluated.
    pub fn letter(&self, decided: Option<(&Decision, &str)>) -> Counter {
        let Some((decision, digests)) = decided else {
            return self.counter(HOST, OTHER, NONE);
        };
        let by = match &decision.action {
            Action::DeadLetter { .. } => decision.decided_by.as_str(),
            Action::Retry { .. } | Action::Discard { .. } => HOST,
        };
        let class = decision.class.to_string();
        self.counter(by, self.classes.name(&class), &self.digest(digests))
    }

    fn counter(&self, by: &'static str, class: &str, digest: &str) -> Counter {
        self.queue
            .dead_letters(by, class.to_owned(), digest.to_owned())
    }

    /// The label of a version: the first digits of its digests, or `other` if there were too many versions.
    fn digest(&self, digests: &str) -> String {
        let label = digest_label(digests);
        let mut versions = lock(&self.versions);
        if versions.contains(&label) {
            return label;
        }
        if versions.len() >= VERSIONS {
            return OTHER.to_owned();
        }
        versions.push(label.clone());
        label
    }
}

/// The first digits of the digests of a version, which are separated by commas.
pub fn digest_label(digests: &str) -> String {
    let parts = digests.split(',').map(|digest| {
        let hex = digest.rsplit(':').next().unwrap_or(digest);
        hex.chars().take(DIGITS).collect::<String>()
    });
    parts.collect::<Vec<_>>().join("+")
}

/// The classes that metrics name: the three that every policy knows, and those of the configuration. A policy may make up any number of others.
#[derive(Debug)]
pub struct Classes(Vec<String>);

impl Classes {
    /// The three, `other`, and these of the configuration.
    pub fn of(named: impl IntoIterator<Item = String>) -> Self {
        let mut classes: Vec<_> = CLASSES.map(str::to_owned).into();
        for class in named {
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        Self(classes)
    }

    /// All of them, `other` among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The name of a class in a metric.
    pub fn name(&self, class: &str) -> &str {
        self.names().find(|name| *name == class).unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use backstop_core::decision::{DecidedBy, ErrorClass};

    use super::*;

    fn decision(class: &str) -> Decision {
        Decision {
            class: ErrorClass::Other(class.to_owned()),
            action: Action::DeadLetter {
                reason: "made up".to_owned(),
            },
            decided_by: DecidedBy::Policy,
            hold: Default::default(),
            down_for: None,
        }
    }

    #[test]
    fn a_class_that_the_configuration_does_not_name_is_other() {
        let letters = DeadLetters::of("orders", ["cart".to_owned(), "permanent".to_owned()]);
        let names: Vec<_> = letters.classes().names().collect();
        let expected = ["transient", "throttled", "permanent", "other", "cart"];
        assert_eq!(names, expected);
        for number in 0..1_000 {
            let made_up = decision(&format!("made-up-{number}"));
            letters.letter(Some((&made_up, "sha256:00"))).increment(1);
            assert_eq!(letters.classes().name(&made_up.class.to_string()), "other");
        }
        assert_eq!(letters.classes().name("cart"), "cart");
    }

    #[test]
    fn versions_beyond_the_first_64_are_other_and_parts_are_one_version() {
        let letters = DeadLetters::of("orders", []);
        let hex = |number: u32| format!("sha256:{number:064x}");
        let composed = format!("sha256:{},sha256:{}", "a".repeat(64), "b".repeat(64));
        let expected = format!("{}+{}", "a".repeat(12), "b".repeat(12));
        assert_eq!(letters.digest(&composed), expected);
        let label =
            |number: u32| letters.digest(&format!("sha256:{}", &hex(number)[59..].repeat(5)));
        let labels: Vec<_> = (0..1_000).map(label).collect();
        let named = labels.iter().filter(|label| *label != OTHER).count();
        assert_eq!(named, VERSIONS - 1);
        assert_eq!(letters.digest(&composed), expected);
    }
}
