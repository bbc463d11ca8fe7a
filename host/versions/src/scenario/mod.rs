//! Scenarios: what an author expects of a policy, written in a file (`host/docs/policies/scenarios.md`), and the outcome of evaluating it.
//!
//! `raw` is the shape of the file, `read` converts it to scenarios, `run` evaluates the policy, and `expected` compares.

mod expected;
mod given;
mod raw;
mod read;
mod required;
mod run;
mod values;

use std::num::NonZeroU32;
use std::path::PathBuf;

use backstop_core::failure::Milliseconds;
use backstop_core::settings::Settings;

pub use expected::Expected;
pub use given::plain_failure;
pub use given::{Given, Layer};
pub use read::ScenarioError;
pub use required::required;
pub use run::{answer, run};
pub use values::{Bounds, Delay, Text};

/// A file of scenarios.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The file.
    pub path: PathBuf,
    /// The settings of the policy, unless a scenario replaces them.
    pub settings: Settings,
    /// The longest delay that the standard checks allow; 12 h unless the file sets another.
    pub longest_delay: Milliseconds,
    /// The scenarios, in the order of the file. Names are unique.
    pub scenarios: Vec<Scenario>,
}

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name: a sentence.
    pub name: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// Settings in addition to the file's.
    pub settings: Settings,
    /// The failure, or that of the first attempt.
    pub given: Given,
    /// The message's body.
    pub payload: String,
    /// What to evaluate, and what to expect.
    pub plan: Plan,
}

/// What to evaluate, and what to expect.
#[derive(Debug, Clone)]
pub enum Plan {
    /// One decision.
    Once(Expected),
    /// The same failure with many random numbers.
    Over {
        /// The number of random numbers.
        numbers: NonZeroU32,
        /// What is expected of each answer.
        expected: Expected,
    },
    /// One attempt after the other, each after the delay that the policy gave.
    Sequence {
        /// The duration of an attempt.
        took: Milliseconds,
        /// What is expected of each attempt.
        steps: Vec<Step>,
    },
    /// One attempt after the other, until the policy gives up.
    GivesUp {
        /// The duration of an attempt.
        took: Milliseconds,
        /// The attempt at which it gives up.
        attempts: Option<NonZeroU32>,
        /// The highest age of the message at that point.
        within: Option<Milliseconds>,
        /// What is expected of the last decision.
        expected: Expected,
    },
    /// The settings are rejected, with a reason that contains this text.
    Refused(String),
}

/// What is expected of one attempt of a sequence.
#[derive(Debug, Clone)]
pub struct Step {
    /// The fields of the failure that differ in this attempt.
    pub failure: Layer,
    /// What is expected.
    pub expected: Expected,
}
