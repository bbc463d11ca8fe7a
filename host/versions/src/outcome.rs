//! What comes of a test, whichever kind it is: what was expected, what was found, and what it takes to see it again.

use std::time::Duration;

use serde::Serialize;

use backstop_core::failure::Failure;
use backstop_engine::LogLine;

/// What kind of test it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A scenario of the author's.
    Scenario,
    /// A check that every policy must pass.
    Check,
}

/// One thing that was expected, and what was found.
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
    /// A row that compares the two.
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
    /// What the policy was asked about.
    pub failure: Failure,
    /// What it wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

/// The smallest failure that a check was failed by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Which of the generated failures it was made of, from 1.
    pub case: u32,
    /// What the generated failures were made of.
    pub seed: u64,
    /// A scenario that fails for the same reason, as TOML; none where a scenario can't tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
}

/// How one test ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The test's name: a sentence.
    #[serde(rename = "test")]
    pub name: String,
    /// What kind of test it was.
    pub kind: Kind,
    /// Where the scenario begins in its file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Whether everything was as expected.
    pub passed: bool,
    /// How much was looked at, for people; empty where there is nothing to add to the name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What the author should know although the test passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What was compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Of a failed test: the decision that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Tried>,
    /// Of a failed check: how to see it again.
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
    /// A test of this name that nothing was compared in yet.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            line: None,
            passed: true,
            about: String::new(),
            warnings: Vec::new(),
            rows: Vec::new(),
            told: None,
            found: None,
            took: Duration::ZERO,
        }
    }

    /// The same with these comparisons: it has passed if all of them hold.
    #[must_use]
    pub fn with_rows(mut self, rows: Vec<Row>) -> Self {
        self.passed = rows.iter().all(|row| row.holds);
        self.rows = rows;
        self
    }
}
