//! The shape of a file of scenarios: names and types of values. `read` checks which can be combined.

use std::num::NonZeroU32;

use serde::Deserialize;
use toml::Spanned;

use super::given::Layer;
use super::values::{Delay, Duration, Numbers, Text};
use backstop_core::decision::Verdict;
use backstop_files::only_tables;
use backstop_files::values::SettingsTable;

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) settings: SettingsTable,
    #[serde(default)]
    pub(super) failure: Layer,
    pub(super) longest_delay: Option<Duration>,
    #[serde(default)]
    pub(super) scenario: Vec<Spanned<Scenario>>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) settings: SettingsTable,
    #[serde(default)]
    pub(super) failure: Layer,
    pub(super) payload: Option<toml::Value>,
    pub(super) took: Option<Spanned<Duration>>,
    pub(super) expect: Option<Spanned<Expect>>,
    pub(super) sequence: Option<Spanned<Vec<Spanned<Step>>>>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) class: Option<Text>,
    pub(super) verdict: Option<Verdict>,
    pub(super) reason: Option<Text>,
    pub(super) delay: Option<Delay>,
    pub(super) down_for: Option<Delay>,
    pub(super) log: Option<Text>,
    pub(super) over: Option<Numbers>,
    pub(super) refused: Option<String>,
    pub(super) attempts: Option<NonZeroU32>,
    pub(super) within: Option<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Step {
    pub(super) class: Option<Text>,
    pub(super) verdict: Option<Verdict>,
    pub(super) reason: Option<Text>,
    pub(super) delay: Option<Delay>,
    pub(super) down_for: Option<Delay>,
    pub(super) log: Option<Text>,
    #[serde(default)]
    pub(super) failure: Layer,
}

only_tables! {
    File: "the tables of a file of scenarios";
    Scenario: "a table, such as [[scenario]] with `name` and `expect`";
    Expect: "a table of what is expected, such as { verdict = \"retry\", delay = \"2s\" }";
    Step: "a table of what is expected of an attempt, such as { delay = \"2s\" }";
}
