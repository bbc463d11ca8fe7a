//! Where runs are kept, and who starts them.

use std::env::VarError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use backstop_core::text::chain;
use backstop_dead_letters::redrive::{Objects, RedriveError, RunFolder, Runs};
use backstop_host::letters::RunsPlace;
use backstop_queue::Connections;
use clap::Parser;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::dlq::s3::Prefix;
use crate::error::{Exit, Result};
use crate::ids::{Kind, elsewhere};

/// The variable that says where runs are kept.
const STATE_VARIABLE: &str = "BACKSTOP_STATE";

/// Where runs are kept.
#[derive(Debug, Clone, Default, Parser)]
#[command(next_help_heading = "The log of runs")]
pub(in crate::dlq) struct StateArgs {
    /// Where the runs are kept: a folder, or s3://bucket/prefix for all operators who may use it [default: that of BACKSTOP_STATE, then backstop/redrives in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FOLDER|s3://…")]
    state: Option<String>,
}

/// Which of the runs.
enum Which<'a> {
    All,
    One(&'a str),
    Newest(usize),
}

impl StateArgs {
    /// The runs that are kept there: this one, or all.
    pub(in crate::dlq) async fn runs(&self, run: Option<&str>) -> Result<Runs> {
        self.some(run.map_or(Which::All, Which::One)).await
    }

    /// The newest runs that are kept there. In a folder, all are listed.
    async fn newest(&self, most: usize) -> Result<Runs> {
        self.some(Which::Newest(most)).await
    }

    async fn some(&self, which: Which<'_>) -> Result<Runs> {
        let named = match (&self.state, std::env::var(STATE_VARIABLE)) {
            (Some(state), _) => Some(state.clone()),
            (None, Ok(state)) if state.is_empty() => {
                return Err(Exit::Usage.because(format!(
                    "{STATE_VARIABLE} is empty: expected a folder, or s3://bucket/prefix"
                )));
            }
            (None, Ok(state)) => Some(state),
            (None, Err(VarError::NotPresent)) => None,
            (None, Err(VarError::NotUnicode(_))) => {
                return Err(Exit::Usage.because(format!(
                    "{STATE_VARIABLE} is no text: expected a folder, or s3://bucket/prefix"
                )));
            }
        };
        let Some(named) = named else {
            return Ok(Runs::at(user_folder()?.join("redrives")));
        };
        // The endpoint of a queue is none of the bucket's.
        let Some(mut prefix) = Prefix::parse(&named, &Connections::new(None)).await? else {
            return Ok(Runs::at(named));
        };
        prefix.end_with_slash();
        let prefix = Arc::new(prefix);
        let hash = hex::encode(Sha256::digest(prefix.url()));
        let name = format!("shared-redrives/{}", hash.get(..16).unwrap_or(&hash));
        let folder = user_folder()?.join(name);
        let runs = match which {
            Which::All => Runs::shared(folder, prefix, None).await,
            Which::One(run) => Runs::shared(folder, prefix, Some(run)).await,
            Which::Newest(most) => Runs::newest_shared(folder, prefix, most).await,
        };
        runs.map_err(|error| Exit::Queue.because(chain(&error)))
    }
}

/// Where a host keeps the runs that operators start on its page.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnRuns {
    /// Without it, where the commands of its user have theirs.
    place: Option<String>,
}

impl OwnRuns {
    /// In this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            place: Some(folder.display().to_string()),
        }
    }

    /// The folder, if it is one and no bucket.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let name = self.name();
        (!name.is_empty() && !name.starts_with("s3:")).then(|| name.into())
    }

    fn args(&self) -> StateArgs {
        StateArgs {
            state: self.place.clone(),
        }
    }
}

#[async_trait]
impl RunsPlace for OwnRuns {
    async fn runs(&self, run: Option<&str>) -> Result<Runs, RedriveError> {
        let run = run.map(str::to_owned);
        let runtime = Handle::current();
        // On a thread of its own: what reads a bucket stays on one.
        let args = self.args();
        let found = spawn_blocking(move || runtime.block_on(args.runs(run.as_deref())));
        let found = found.await.map_err(std::io::Error::other)?;
        found.map_err(|error| std::io::Error::other(error.to_string()).into())
    }

    async fn newest(&self, most: usize) -> Result<Runs, RedriveError> {
        let runtime = Handle::current();
        let args = self.args();
        let found = spawn_blocking(move || runtime.block_on(args.newest(most)));
        let found = found.await.map_err(std::io::Error::other)?;
        found.map_err(|error| std::io::Error::other(error.to_string()).into())
    }

    fn name(&self) -> String {
        let named = self.place.clone();
        let named = named.or_else(|| std::env::var(STATE_VARIABLE).ok());
        let own = || {
            user_folder()
                .ok()
                .map(|it| it.join("redrives").display().to_string())
        };
        named.or_else(own).unwrap_or_default()
    }
}

/// The runs in a place; without one, those of this user, unless they are in a bucket.
pub(in crate::dlq) async fn runs_at(place: Option<&str>) -> Result<Option<Runs>> {
    let is_bucket = |it: String| it.is_empty() || it.starts_with("s3:");
    if place.is_none() && std::env::var(STATE_VARIABLE).is_ok_and(is_bucket) {
        return Ok(None);
    }
    if let Some(folder) = place.filter(|it| !it.starts_with("s3:"))
        && !Path::new(folder).is_dir()
    {
        return Err(Exit::Config.because(format!(
            "there is no folder {folder}: expected that of the runs of `dlq redrive`, or s3://bucket/prefix"
        )));
    }
    let args = StateArgs {
        state: place.map(str::to_owned),
    };
    match args.runs(None).await {
        // Nobody has to have a home.
        Err(_) if place.is_none() => Ok(None),
        runs => runs.map(Some),
    }
}

/// The folder for what this user keeps.
fn user_folder() -> Result<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Exit::Usage.because("no home directory is known: name the folder of the runs with --state")
    })?;
    Ok(state.join("backstop"))
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
