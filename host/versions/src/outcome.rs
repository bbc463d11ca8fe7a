//! The outcome of a test of either kind: what was expected, what was found, and how to reproduce it.

use std::time::Duration;

use serde::Serialize;

use backstop_core::failure::Failure;
use backstop_engine::LogLine;

/// The kind of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A scenario that the author wrote.
    Scenario,
    /// A check that every policy must pass.
    Check,
}

/// One comparison of what was expected with what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What is compared: `delay`, `attempt 2 verdict`.
    pub what: String,
    /// What was expected, for people.
    pub expected: String,
    /// What was found, for people.
    pub got: String,
    /// Whether the two agree.
    pub holds: bool,
}

impl Row {
    /// A comparison.
    pub fn new(
        what: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
        holds: bool,
    ) -> Self {
        Self {
            what: what.into(),
            expected: expected.into(),
            got: got.into(),
            holds,
        }
    }
}

/// The decision that a failed test is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// The failure.
    pub failure: Failure,
    /// The lines that the policy logged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

/// The minimised failure with which a policy fails a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The number of the generated failure that it was minimised from, from 1.
    pub case: u32,
    /// The seed of the generated failures.
    pub seed: u64,
    /// A scenario that fails for the same reason, as TOML. `None` if no scenario can express it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
}

/// The outcome of one test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The test's name: a sentence.
    #[serde(rename = "test")]
    pub name: String,
    /// The kind of a test.
    pub kind: Kind,
    /// The line of the scenario in its file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Whether everything was as expected.
    pub passed: bool,
    /// How much was tested, for people. Empty if the name says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What the author should know although the test passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What was compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The decision that a failed test is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
    /// How to reproduce a failed check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// How long it took.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
}

fn seconds<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.as_secs_f64())
}

impl Outcome {
    /// A test without comparisons yet.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            line: None,
            passed: true,
            about: String::new(),
            warnings: Vec::new(),
            rows: Vec::new(),
            tried: None,
            found: None,
            took: Duration::ZERO,
        }
    }

    /// The same with these comparisons. It passes if all of them hold.
    #[must_use]
    pub fn with_rows(mut self, rows: Vec<Row>) -> Self {
        self.passed = rows.iter().all(|row| row.holds);
        self.rows = rows;
        self
    }
}
