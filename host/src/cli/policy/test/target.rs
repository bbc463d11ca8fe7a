//! What is tested: the policy's file and the scenarios that go with it.

use std::path::{Path, PathBuf};

use crate::author::scenario::{ScenarioError, Suite};
use crate::cli::policy::source_of;
use crate::policy::Source;

/// The name of the file of scenarios beside a policy.
const SCENARIOS: &str = "scenarios.toml";

/// A policy and its scenarios.
#[derive(Debug)]
pub(super) struct Target {
    /// What it is called.
    pub(super) name: String,
    pub(super) source: Source,
    /// The policy project, if it is one.
    pub(super) folder: Option<PathBuf>,
    /// The scenarios, where there are any.
    pub(super) scenarios: Option<PathBuf>,
    /// Where the scenarios would have been.
    pub(super) expected_at: Option<PathBuf>,
}

impl Target {
    /// What `policy` names: a built-in policy, a folder with a policy project, or a file. `scenarios` takes the place of the file beside it.
    pub(super) fn find(policy: &str, scenarios: Option<&Path>) -> anyhow::Result<Self> {
        let path = Path::new(policy);
        let source = source_of(policy)?;
        let is_project = matches!(source, Source::File(_)) && path.is_dir();
        let folder = is_project.then(|| path.to_owned());
        let beside = match (&source, &folder) {
            (_, Some(folder)) => Some(folder.join(SCENARIOS)),
            (Source::File(path), None) => Some(path.with_file_name(SCENARIOS)),
            (Source::Builtin(_), None) => None,
        };
        let there = beside.clone().filter(|path| path.exists());
        Ok(Self {
            name: source.to_string(),
            source,
            folder,
            scenarios: scenarios.map(Path::to_owned).or(there),
            expected_at: beside,
        })
    }

    /// The scenarios; none where there is no file.
    pub(super) fn suite(&self) -> Result<Suite, ScenarioError> {
        match &self.scenarios {
            Some(path) => Suite::read(path),
            None => Ok(Suite::empty()),
        }
    }
}
