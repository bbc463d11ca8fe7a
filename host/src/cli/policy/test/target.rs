//! What is tested: the policy's file and the scenarios that go with it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::author::scenario::{ScenarioError, Suite};
use crate::policy::{Source, builtin};

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
        let is_builtin = builtin::names().any(|name| name == policy);
        let (source, folder) = if !is_builtin && path.is_dir() {
            (Source::File(component_of(path)?), Some(path.to_owned()))
        } else {
            (Source::parse(policy, Path::new(""))?, None)
        };
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

/// What `policy.toml` says of a project, as far as it matters here.
#[derive(Deserialize)]
struct Project {
    name: String,
}

/// The component that a policy project builds: `build/NAME.wasm`, where `policy.toml` says the name. It is taken as it is; building it is the author's.
fn component_of(folder: &Path) -> anyhow::Result<PathBuf> {
    let about = folder.join("policy.toml");
    let text = std::fs::read_to_string(&about).with_context(|| {
        format!(
            "{} is no policy project: can't read {}",
            folder.display(),
            about.display()
        )
    })?;
    let project: Project =
        toml::from_str(&text).with_context(|| format!("{} is wrong", about.display()))?;
    Ok(folder
        .join("build")
        .join(project.name)
        .with_extension("wasm"))
}
