//! Scenarios: what an author expects of a policy, written in a file (`host/docs/scenarios.md`), and the outcome of evaluating it.
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
pub use expected::described;
pub use given::plain_failure;
pub use given::{Given, Layer};
pub use read::ScenarioError;
pub use required::required;
pub use run::run;
pub use values::{Bounds, Delay, Text, Verdict};

/// A file of scenarios.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The file.
    pub path: PathBuf,
    /// The settings of the policy, unless a scenario replaces them.
    pub settings: Settings,
    /// The longest delay that the standard checks allow; 12 h unless the file says otherwise.
    pub longest_delay: Milliseconds,
    /// In the order of the file; no two have the same name.
    pub scenarios: Vec<Scenario>,
}

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// A sentence.
    pub name: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// Settings in addition to the file's.
    pub settings: Settings,
    /// The failure, or that of the first attempt.
    pub given: Given,
    /// The message's body.
    pub payload: String,
    /// What is evaluated and expected.
    pub plan: Plan,
}

/// What is evaluated and expected.
#[derive(Debug, Clone)]
pub enum Plan {
    /// One decision.
    Once(Expected),
    /// The same failure with many random numbers.
    Over {
        /// How many.
        numbers: NonZeroU32,
        /// Of each.
        expected: Expected,
    },
    /// One attempt after the other, each after the delay that the policy gave.
    Sequence {
        /// How long an attempt takes.
        took: Milliseconds,
        /// What is expected of each.
        steps: Vec<Step>,
    },
    /// One attempt after the other, until the policy gives up.
    GivesUp {
        /// How long an attempt takes.
        took: Milliseconds,
        /// At which attempt.
        attempts: Option<NonZeroU32>,
        /// The highest age of the message then.
        within: Option<Milliseconds>,
        /// Of the last decision.
        expected: Expected,
    },
    /// The settings are rejected, for a reason with this text in it.
    Refused(String),
}

/// What is expected of one attempt of a sequence.
#[derive(Debug, Clone)]
pub struct Step {
    /// The failure of this attempt, where it differs.
    pub failure: Layer,
    /// What is expected.
    pub expected: Expected,
}
