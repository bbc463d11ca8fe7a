//! How a command line names a policy: a built-in, a file, a policy's folder, or an address.

use std::path::{Path, PathBuf};

use backstop_core::policy::NAMES;
use backstop_core::settings::{Settings, parse_pair};
use backstop_engine::{Policy, Sandbox, builtin};
use backstop_versions::{PartSpec, PolicySpec, Source};
use backstop_workbench::subject::Subject;
use clap::Parser;

use super::{component, sandbox};
use crate::error::Result;

/// A policy and its settings, as flags name them.
#[derive(Debug, Parser)]
pub(super) struct NamedPolicy {
    #[arg(value_name = "NAME|PATH|URL", help = policy_help("The policy", " (built first if it changed)", ""))]
    pub(super) policy: String,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) settings: Vec<(String, String)>,
}

/// The help of an argument that names a policy.
pub(crate) fn policy_help(what: &str, about_a_folder: &str, default: &str) -> String {
    format!(
        "{what}: a built-in ({}), the path of a .wasm or .wat file, a policy's folder{about_a_folder}, s3://bucket/key or oci://registry/repository:tag{default}",
        NAMES.join(", ")
    )
}

impl NamedPolicy {
    /// Loads and validates the policy, as a host does.
    pub(super) fn load(&self) -> Result<Policy> {
        super::load(&self.policy, &self.settings.clone().into())
    }

    /// Loads the policy without validating it.
    pub(super) fn load_unvalidated(&self) -> Result<Policy> {
        let source = source(&self.policy)?;
        let subject = Subject::load(&sandbox::cached()?, &source, &self.policy)?;
        Ok(subject.policy(&self.settings.clone().into()))
    }
}

/// Loads and validates the named policy with these settings, as a host does.
pub(super) fn load(sandbox: &Sandbox, name: &str, settings: &Settings) -> Result<Policy> {
    let spec = PolicySpec::Single(PartSpec {
        source: source(name)?,
        settings: settings.clone(),
    });
    Ok(spec.load(sandbox)?)
}

/// What a name refers to. A policy's folder is built first if its sources changed.
pub(super) fn source(name: &str) -> Result<Source> {
    match folder(name) {
        Some(folder) => Ok(Source::path(component::up_to_date(&folder)?)),
        None => Ok(Source::parse(name, Path::new(""))?),
    }
}

/// The folder that a name refers to, if it does. The names of built-in policies come first.
pub(super) fn folder(name: &str) -> Option<PathBuf> {
    let is_builtin = builtin::names().any(|known| known == name);
    let folder = PathBuf::from(name);
    (!is_builtin && folder.is_dir()).then_some(folder)
}
