//! How the command ends: its exit codes, and what it says of an error.

use std::process::ExitCode;

use super::doctor::Ill;
use super::policy::{BrokenPolicy, TestsFailed};
use crate::author::scenario::ScenarioError;
use crate::author::{BuildError, ProjectError};
use crate::config::ConfigError;
use crate::policy::{CompileError, PolicyError, SourceError};
use crate::service::{QueueFault, StartError};

/// The exit codes, as `--help` lists them.
pub(super) const HELP: &str = "\
Exit codes:
  0    done
  1    something unexpected went wrong
  2    the command line is wrong
  3    the configuration is wrong, or a file of scenarios
  4    a policy is refused, or does not build
  5    a queue, a dead-letter queue or a handler can't be used
  6    `backstop doctor` found something that is wrong
  7    `backstop policy test`: a scenario or a check failed
  130  ended at once by a second signal

Try `backstop demo` first: it needs no account and takes ten seconds.";

/// Every way in which the command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Success = 0,
    Unexpected = 1,
    Usage = 2,
    Config = 3,
    Policy = 4,
    Queue = 5,
    Ill = 6,
    TestsFailed = 7,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The command line asks for something that does not go together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

impl Exit {
    fn of(error: &anyhow::Error) -> Self {
        if error.is::<UsageError>() {
            return Self::Usage;
        }
        if error.is::<Ill>() {
            return Self::Ill;
        }
        if error.is::<TestsFailed>() {
            return Self::TestsFailed;
        }
        if error.is::<ConfigError>() || error.is::<ScenarioError>() {
            return Self::Config;
        }
        if error.is::<PolicyError>()
            || error.is::<CompileError>()
            || error.is::<BrokenPolicy>()
            || error.is::<BuildError>()
            || error.is::<ProjectError>()
            || error.is::<SourceError>()
        {
            return Self::Policy;
        }
        match error.downcast_ref::<StartError>() {
            Some(StartError::Queues(faults)) => match faults.first() {
                Some((_, QueueFault::Policy(_))) => Self::Policy,
                Some((_, QueueFault::Http(_))) => Self::Config,
                Some((_, QueueFault::Consumer(_))) | None => Self::Queue,
            },
            Some(StartError::Records(_) | StartError::Metrics(_)) => Self::Config,
            Some(StartError::Sandbox(_) | StartError::Watch(_)) | None => Self::Unexpected,
        }
    }
}

/// Tells the error on stderr, with all of its causes.
pub(super) fn report(error: &anyhow::Error) -> ExitCode {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    anstream::eprintln!("{red}error:{red:#} {error:#}");
    Exit::of(error).into()
}
