//! Building a policy's folder into a component, with each command of the toolchain shown.

use std::path::{Path, PathBuf};
use std::sync::Once;

use backstop_workbench::{self, Built, Installation, Project, Untested};

use crate::error::{Exit, Result};
use crate::terminal::eprintln;
use crate::terminal::style::DIM;
use crate::{log, signals};

/// Builds the component, and shows each command on stderr before it runs.
pub(super) fn build(project: &Project, names: bool) -> Result<Built> {
    end_tools_on_signal();
    Ok(backstop_workbench::build(project, names, &mut shown)?)
}

/// Builds the component that is to be tested before hosts load it, unless that was done before.
pub(super) fn untested(project: &Project) -> Result<Untested<'_>> {
    end_tools_on_signal();
    Ok(Untested::build(project, &mut shown)?)
}

/// Installs the toolchain of a policy's folder, and shows each command and what it writes on stderr.
pub(super) fn install(installation: Installation, project: &Project) -> Result<()> {
    end_tools_on_signal();
    Ok(installation.run(&project.folder, &mut shown)?)
}

fn shown(command: &str) {
    eprintln!("{DIM}$ {command}{DIM:#}");
}

/// The path of the component of a policy's folder, which is built first if the sources changed.
pub(super) fn up_to_date(folder: &Path) -> Result<PathBuf> {
    let project = Project::open(folder)?;
    if !project.is_built() {
        build(&project, false)?;
    }
    Ok(project.component())
}

/// From now on, a signal that stops this process stops the toolchain too. Tools run in a process group of their own, which Ctrl-C does not reach.
fn end_tools_on_signal() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        tokio::spawn(async {
            if let Err(error) = signals::stopped().await {
                tracing::debug!("{error}");
                return;
            }
            backstop_workbench::end_tools();
            log::flush();
            std::process::exit(Exit::Interrupted as i32);
        });
    });
}
