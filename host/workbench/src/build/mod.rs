//! `backstop policy build`: builds a policy's folder into a component, with the toolchain of its language.
//!
//! [`commands`] runs the [`toolchain`] of the language, [`component`] turns its output into a component that hosts load, [`hint`] explains a build that fails because an export is missing, [`install`] installs the toolchain, [`sources`] tells whether a build is needed, and [`untested`] keeps a component until its tests have passed.

mod commands;
mod component;
mod hint;
mod install;
mod sources;
mod toolchain;
mod untested;

use std::io;
use std::path::{Path, PathBuf};

use backstop_engine::PolicyDigest;
use backstop_files::atomic_write;

use crate::bindings::{self, BindingsError};
use crate::project::Project;
use toolchain::TimeLimit;

pub use commands::missing_toolchain;
pub use component::{ComponentError, Metadata};
pub use install::Installation;
pub use toolchain::{ToolError, end_tools};
pub use untested::Untested;

/// Why a build fails.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// See [`BindingsError`].
    #[error(transparent)]
    Bindings(#[from] BindingsError),
    /// See [`ToolError`].
    #[error("{tool}{hint}")]
    Tool {
        /// The failure of the tool.
        tool: ToolError,
        /// What to add to the policy, if that is known. It starts on a new line.
        hint: String,
    },
    /// See [`ComponentError`].
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// A file can't be read or written.
    #[error("can't {what} {}", path.display())]
    File {
        /// Read or write.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Another test of the folder has built other sources.
    #[error("{} changed while it was tested, by another test of the folder: run the test again", path.display())]
    ChangedMeanwhile {
        /// The component.
        path: PathBuf,
    },
}

/// A built component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
    /// Its digest.
    pub digest: PolicyDigest,
}

/// Builds the policy. `names` keeps the names of functions, for traces. `step` is called with each command before it runs.
///
/// If the build exceeds the project's `build-timeout`, the running tool is killed, with all processes that it started.
///
/// The component is replaced atomically, so a host that watches it never reads an incomplete file. An unchanged component is not written.
pub fn build(
    project: &Project,
    names: bool,
    step: &mut dyn FnMut(&str),
) -> Result<Built, BuildError> {
    let (component, sources) = made(project, names, step)?;
    let path = project.component();
    write_if_changed(&path, &component).map_err(unusable("write", &path))?;
    // A component with names does not count as the build of the folder.
    let stamp = (!names).then_some(sources.as_str());
    let recorded = project.record_build(stamp);
    recorded.map_err(unusable("write into the folder of", &path))?;
    Ok(Built {
        path,
        size: component.len(),
        digest: PolicyDigest::of(&component),
    })
}

/// The component, and the sources that it was made of.
fn made(
    project: &Project,
    names: bool,
    step: &mut dyn FnMut(&str),
) -> Result<(Vec<u8>, String), BuildError> {
    let sources = project.sources();
    bindings::write(project)?;
    let time_limit = TimeLimit::from_now(project.build_timeout);
    let made = commands::run(project, &mut |command, words| {
        step(&toolchain::shown(command));
        toolchain::run(command, words, time_limit)
    });
    let raw = made.map_err(|tool| BuildError::Tool {
        hint: hint::for_failure(project, &tool),
        tool,
    })?;
    let module = std::fs::read(&raw).map_err(unusable("read", &raw))?;
    Ok((component::finish(project, &module, names)?, sources))
}

fn unusable(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |cause| BuildError::File { what, path, cause }
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|current| current == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    atomic_write::write(path, bytes, 0o644)
}
