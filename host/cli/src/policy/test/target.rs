//! What is tested: a policy and its scenarios.

use std::path::{Path, PathBuf};

use backstop_versions::{Location, Source, SourceError};
use backstop_workbench::Project;
use backstop_workbench::scenario::{ScenarioError, Suite};

use crate::error::Result;
use crate::policy::named_policy;

/// The default name of the scenarios' file.
const SCENARIOS: &str = "scenarios.toml";

/// A policy and its scenarios.
#[derive(Debug)]
pub(super) struct Target {
    /// The policy, as it was named.
    pub(super) name: String,
    /// The policy's folder, if a folder was named.
    pub(super) folder: Option<PathBuf>,
    /// The policy's file, if a file was named.
    pub(super) file: Option<PathBuf>,
    /// The file of scenarios, if there is one.
    pub(super) scenarios: Option<PathBuf>,
    /// The default path of the scenarios.
    pub(super) expected_at: Option<PathBuf>,
}

impl Target {
    /// Finds the policy (a built-in, a policy's folder, or a file) and its scenarios. `scenarios` overrides the default path. Nothing is built or read.
    pub(super) fn find(policy: &str, scenarios: Option<&Path>) -> Result<Self, SourceError> {
        let folder = named_policy::folder(policy);
        let file = match &folder {
            Some(_) => None,
            None => match Source::parse(policy, Path::new(""))?.location {
                Location::Path(path) => Some(path),
                Location::Builtin(_) | Location::S3 { .. } | Location::Registry(_) => None,
            },
        };
        let expected_at = match (&folder, &file) {
            (Some(folder), _) => Some(folder.join(SCENARIOS)),
            (None, Some(file)) => Some(file.with_file_name(SCENARIOS)),
            (None, None) => None,
        };
        let existing = expected_at.clone().filter(|path| path.exists());
        Ok(Self {
            name: policy.to_owned(),
            folder,
            file,
            scenarios: scenarios.map(Path::to_owned).or(existing),
            expected_at,
        })
    }

    /// The policy's folder, if it has changed since its component was built.
    pub(super) fn changed(&self) -> Result<Option<Project>> {
        let project = self.folder.as_deref().map(Project::open).transpose()?;
        Ok(project.filter(|project| !project.is_built()))
    }

    /// The policy, if it has not changed.
    pub(super) fn source(&self) -> Result<Source> {
        named_policy::source(&self.name)
    }

    /// Reads the scenarios. Empty if there is no file.
    pub(super) fn suite(&self) -> Result<Suite, ScenarioError> {
        match &self.scenarios {
            Some(path) => Suite::read(path),
            None => Ok(Suite::empty()),
        }
    }
}
