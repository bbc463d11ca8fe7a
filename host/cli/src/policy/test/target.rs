//! What is tested: the policy's file and the scenarios that go with it.

use std::path::{Path, PathBuf};

use crate::policy::{folder_named, source_of};
use backstop::policy::{Location, Source, SourceError};
use backstop_workbench::scenario::{ScenarioError, Suite};

/// The name of the file of scenarios beside a policy.
const SCENARIOS: &str = "scenarios.toml";

/// A policy and its scenarios.
#[derive(Debug)]
pub(super) struct Target {
    /// What it is called.
    pub(super) name: String,
    /// The policy's folder, if it is one: built where it has changed.
    pub(super) folder: Option<PathBuf>,
    /// The policy's file, if it is one.
    pub(super) file: Option<PathBuf>,
    /// The scenarios, where there are any.
    pub(super) scenarios: Option<PathBuf>,
    /// Where the scenarios would have been.
    pub(super) expected_at: Option<PathBuf>,
}

impl Target {
    /// What `policy` names: a built-in policy, a policy's folder, or a file. `scenarios` takes the place of the file beside it. Nothing is built or read.
    pub(super) fn find(policy: &str, scenarios: Option<&Path>) -> Result<Self, SourceError> {
        let folder = folder_named(policy);
        let file = match &folder {
            Some(_) => None,
            None => match Source::parse(policy, Path::new(""))?.location {
                Location::Path(path) => Some(path),
                Location::Builtin(_) | Location::S3 { .. } | Location::Registry(_) => None,
            },
        };
        let beside = match (&folder, &file) {
            (Some(folder), _) => Some(folder.join(SCENARIOS)),
            (None, Some(file)) => Some(file.with_file_name(SCENARIOS)),
            (None, None) => None,
        };
        let there = beside.clone().filter(|path| path.exists());
        Ok(Self {
            name: policy.to_owned(),
            folder,
            file,
            scenarios: scenarios.map(Path::to_owned).or(there),
            expected_at: beside,
        })
    }

    /// The policy's file, built where it is a folder whose files have changed.
    pub(super) fn source(&self) -> anyhow::Result<Source> {
        source_of(&self.name)
    }

    /// The scenarios; none where there is no file.
    pub(super) fn suite(&self) -> Result<Suite, ScenarioError> {
        match &self.scenarios {
            Some(path) => Suite::read(path),
            None => Ok(Suite::empty()),
        }
    }
}
