//! How the command ends: its exit codes, and what it says of an error.

use std::process::ExitCode;

use super::doctor::ProblemsFound;
use super::log;
use super::policy::{BrokenPolicy, Differences, TestsFailed};
use backstop::config::ConfigError;
use backstop::policy::{
    BucketError, CompileError, KeyError, PackageError, PolicyError, RegistryError, SignatureError,
    SigningError, SourceError,
};
use backstop::service::{QueueFault, StartError};
use backstop_core::text::harmless;
use backstop_workbench::scenario::ScenarioError;
use backstop_workbench::{BuildError, ProjectError};

/// The exit codes, as `--help` lists them.
pub(super) const HELP: &str = "\
Exit codes:
  0    done
  1    something unexpected went wrong, or standard output can't be written
  2    the command line is wrong
  3    the configuration is wrong, a file of scenarios, or a key
  4    a policy is refused or its signature is, it does not build, or there is no version to go back to
  5    a queue, a dead-letter queue, a handler, a registry, a bucket or a running host can't be used
  6    `backstop doctor` found something that is wrong, or with --strict something to think about
  7    `backstop policy test`: a scenario or a check failed
  8    `backstop policy replay`: a policy decides otherwise
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
    ProblemsFound = 6,
    TestsFailed = 7,
    Differences = 8,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A version is not taken back.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RollbackRefused(pub(super) String);

/// There is no running host to ask.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoHost(pub(super) String);

/// The command line asks for something that does not go together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

impl Exit {
    fn of(error: &anyhow::Error) -> Self {
        if error.is::<UsageError>() {
            return Self::Usage;
        }
        if error.is::<ProblemsFound>() {
            return Self::ProblemsFound;
        }
        if error.is::<TestsFailed>() {
            return Self::TestsFailed;
        }
        if error.is::<Differences>() {
            return Self::Differences;
        }
        if error.is::<NoHost>() {
            return Self::Queue;
        }
        if error.is::<ConfigError>()
            || error.is::<ScenarioError>()
            || error.is::<KeyError>()
            || error.is::<SigningError>()
        {
            return Self::Config;
        }
        if let Some(error) = error.downcast_ref::<PolicyError>() {
            return Self::of_policy(error);
        }
        if let Some(error) = error.downcast_ref::<SourceError>() {
            return Self::of_source(error);
        }
        if error.is::<CompileError>()
            || error.is::<RollbackRefused>()
            || error.is::<BrokenPolicy>()
            || error.is::<BuildError>()
            || error.is::<ProjectError>()
            || error.is::<SignatureError>()
            || error.is::<PackageError>()
        {
            return Self::Policy;
        }
        if let Some(error) = error.downcast_ref::<RegistryError>() {
            return Self::of_registry(error);
        }
        if let Some(error) = error.downcast_ref::<BucketError>() {
            return Self::of_bucket(error);
        }
        match error.downcast_ref::<StartError>() {
            Some(StartError::Queues(faults)) => match faults.first() {
                Some((_, QueueFault::Policy(error))) => Self::of_policy(error),
                Some((_, QueueFault::Http(_) | QueueFault::Scenarios(_))) => Self::Config,
                Some((_, QueueFault::Consumer(_))) | None => Self::Queue,
            },
            Some(StartError::Records(_) | StartError::Store(_) | StartError::Metrics(_)) => {
                Self::Config
            }
            Some(StartError::Sandbox(_) | StartError::Watch(_)) | None => Self::Unexpected,
        }
    }
}

impl Exit {
    fn of_policy(error: &PolicyError) -> Self {
        match error {
            PolicyError::Source(error) => Self::of_source(error),
            PolicyError::Signature { .. }
            | PolicyError::Component { .. }
            | PolicyError::Role(_)
            | PolicyError::Probe { .. }
            | PolicyError::Remembered { .. }
            | PolicyError::Panicked { .. }
            | PolicyError::RolledBack { .. }
            | PolicyError::Scenarios { .. } => Self::Policy,
        }
    }

    fn of_source(error: &SourceError) -> Self {
        match error {
            SourceError::Registry { cause, .. } => Self::of_registry(cause),
            SourceError::Bucket { cause, .. } => Self::of_bucket(cause),
            SourceError::Unknown { .. }
            | SourceError::Name { .. }
            | SourceError::Unreadable { .. }
            | SourceError::Empty { .. }
            | SourceError::TooLarge { .. }
            | SourceError::Pin { .. }
            | SourceError::Asking { .. } => Self::Policy,
            SourceError::Unsupported { .. } | SourceError::Slow { .. } => Self::Queue,
        }
    }

    fn of_bucket(error: &BucketError) -> Self {
        match error {
            BucketError::TooLarge { .. } => Self::Policy,
            BucketError::Away { .. }
            | BucketError::NotFound { .. }
            | BucketError::Denied { .. }
            | BucketError::Refused { .. } => Self::Queue,
        }
    }

    fn of_registry(error: &RegistryError) -> Self {
        match error {
            RegistryError::Unfit { .. }
            | RegistryError::TooLarge { .. }
            | RegistryError::Changed { .. } => Self::Policy,
            RegistryError::Away { .. }
            | RegistryError::Plain { .. }
            | RegistryError::NotFound { .. }
            | RegistryError::Denied { .. }
            | RegistryError::Refused { .. } => Self::Queue,
        }
    }
}

/// Writes the error to stderr, with all of its causes.
pub(super) fn report(error: &anyhow::Error) -> ExitCode {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let text = harmless(&format!("{error:#}"));
    log::say(&format!("{red}error:{red:#} {text}\n"));
    Exit::of(error).into()
}
