//! Where runs are kept, and who starts them.

use std::path::PathBuf;

use backstop_dead_letters::redrive::{RunFolder, Runs};
use clap::Parser;

use crate::error::{Exit, Result};
use crate::ids::{Kind, elsewhere};

/// Where runs are kept.
#[derive(Debug, Clone, Default, Parser)]
#[command(next_help_heading = "The log of runs")]
pub(in crate::dlq) struct StateArgs {
    /// The folder of the runs [default: backstop/redrives in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

impl StateArgs {
    /// The runs in the folder.
    pub(in crate::dlq) fn runs(&self) -> Result<Runs> {
        if let Some(folder) = &self.state {
            return Ok(Runs::at(folder));
        }
        let absolute = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let state = absolute("XDG_STATE_HOME");
        let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
        let state = state.ok_or_else(|| {
            Exit::Usage
                .because("no home directory is known: name the folder of the runs with --state")
        })?;
        Ok(Runs::at(state.join("backstop/redrives")))
    }
}

/// The run with this id, or what else has it.
pub(in crate::dlq) fn find(runs: &Runs, id: &str) -> Result<RunFolder> {
    runs.find(id)
        .map_err(|error| match elsewhere(id, &[Kind::Run]) {
            hint if hint.is_empty() => error.into(),
            hint => Exit::Usage.because(format!("{error}{hint}")),
        })
}

/// Who runs this command: the user and the host.
pub(in crate::dlq) fn user() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME"));
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(host) => format!("{user}@{}", host.trim()),
        Err(_) => user,
    }
}
