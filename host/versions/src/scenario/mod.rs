//! Scenarios: what an author expects of a policy, as a file says it (`host/docs/scenarios.md`), and what comes of asking.
//!
//! `raw` is the file's shape, `read` makes scenarios of it, `expected` compares, `run` asks.

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
    /// What the policy is given, unless a scenario says otherwise.
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
    /// Where it begins in its file, from 1.
    pub line: usize,
    /// What it gives the policy besides the file's settings.
    pub settings: Settings,
    /// What the policy is asked about, or what its first attempt failed by.
    pub given: Given,
    /// The message's body.
    pub payload: String,
    /// What is asked and expected.
    pub plan: Plan,
}

/// What is asked and expected.
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
    /// The settings are refused, for a reason with this text in it.
    Refused(String),
}

/// What is expected of one attempt of a sequence.
#[derive(Debug, Clone)]
pub struct Step {
    /// What this attempt alone failed by.
    pub failure: Layer,
    /// What is expected.
    pub expected: Expected,
}
