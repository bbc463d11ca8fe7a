//! Exit codes: the documented list, and the code of every error.

use std::process::ExitCode;

use backstop::StartError;
use backstop::error::QueueFault;
use backstop::error::{AssemblyError, LoadError};
use backstop::internal::admin::ClientError;
use backstop_core::text::{chain, harmless, one_line};
use backstop_dead_letters::redrive::RedriveError;
use backstop_versions::{BucketError, PolicyError, RegistryError, SourceError};

use crate::error::CommandError;
use crate::log;

/// The exit codes, as `--help` lists them.
pub(super) const HELP: &str = "\
Exit codes:
  0    success
  1    unexpected error, or standard output can't be written
  2    invalid command line
  3    invalid configuration, scenarios file or key, or an input file that can't be read
  4    a policy or its signature is missing or rejected, a build or an installation failed, or no version to roll back to
  5    a queue, handler, registry, bucket or running host can't be reached or used
  6    `backstop doctor` found a problem, or a warning with --strict
  7    `backstop policy test`: a scenario or a check failed
  8    `backstop policy replay`: a decision differs
  9    `backstop deliver`: entries are undelivered; `backstop dlq redrive`: letters are not moved
  130  interrupted before the work was done, or stopped at once by a second signal

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
    Undelivered = 9,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<&CommandError> for Exit {
    fn from(error: &CommandError) -> Self {
        match error {
            CommandError::During { cause, .. } => Self::from(cause.as_ref()),
            CommandError::Usage(_) | CommandError::Baseline(_) => Self::Usage,
            CommandError::Config(_)
            | CommandError::Scenarios(_)
            | CommandError::Key(_)
            | CommandError::Signing(_)
            | CommandError::AdminToken(_)
            | CommandError::Input { .. }
            | CommandError::Records(_) => Self::Config,
            CommandError::Policy(error) => of_policy(error),
            CommandError::Source(error) => of_source(error),
            CommandError::Registry(error) => of_registry(error),
            CommandError::Bucket(error) => of_bucket(error),
            CommandError::BrokenPolicy(_)
            | CommandError::InvalidSettings(_)
            | CommandError::RollbackRefused { .. }
            | CommandError::Compile(_)
            | CommandError::Signature(_)
            | CommandError::Package(_)
            | CommandError::Project(_)
            | CommandError::Build(_)
            | CommandError::Toolchain(_) => Self::Policy,
            CommandError::Admin(ClientError::Url { .. }) => Self::Usage,
            CommandError::Start(error) => of_start(error),
            CommandError::NoHost(_)
            | CommandError::DeadLetters(_)
            | CommandError::Admin(_)
            | CommandError::Target(_)
            | CommandError::DeliveryRefused { .. } => Self::Queue,
            CommandError::Undelivered { .. } | CommandError::NotMoved(_) => Self::Undelivered,
            CommandError::Redrive(error) => of_redrive(error),
            CommandError::ProblemsFound { .. } | CommandError::WarningsFound { .. } => {
                Self::ProblemsFound
            }
            CommandError::TestsFailed { .. } => Self::TestsFailed,
            CommandError::DecisionsDiffer { .. } | CommandError::NewlyBroken { .. } => {
                Self::Differences
            }
            CommandError::Interrupted(_) => Self::Interrupted,
            CommandError::Failed(_)
            | CommandError::Store(_)
            | CommandError::Sandbox(_)
            | CommandError::PolicyWatch(_)
            | CommandError::Consumer(_)
            | CommandError::Queue(_)
            | CommandError::Message(_)
            | CommandError::New(_)
            | CommandError::Chart(_)
            | CommandError::Output(_)
            | CommandError::Io(_)
            | CommandError::Json(_)
            | CommandError::Csv(_)
            | CommandError::Junit(_)
            | CommandError::FileWatch(_)
            | CommandError::Task(_) => Self::Unexpected,
        }
    }
}

fn of_redrive(error: &RedriveError) -> Exit {
    match error {
        RedriveError::NoTarget { .. }
        | RedriveError::Itself { .. }
        | RedriveError::OtherQueue { .. }
        | RedriveError::Unsettled { .. }
        | RedriveError::NoRun { .. } => Exit::Usage,
        RedriveError::Queue(_)
        | RedriveError::Read(_)
        | RedriveError::OwnRedrive { .. }
        | RedriveError::Target { .. }
        | RedriveError::Unusable { .. }
        | RedriveError::Active { .. } => Exit::Queue,
        RedriveError::Io(_) | RedriveError::Editor(_) => Exit::Unexpected,
    }
}

/// Several queues may be faulty: the first one's fault gives the code.
fn of_start(error: &StartError) -> Exit {
    match error {
        StartError::Queues(faults) => match faults.first() {
            Some((_, QueueFault::Policy(error))) => of_load(error),
            Some((_, QueueFault::Http(_))) => Exit::Config,
            Some((_, QueueFault::Consumer(_))) | None => Exit::Queue,
        },
        StartError::Assembly(AssemblyError::Store(_) | AssemblyError::Records(_))
        | StartError::Metrics(_)
        | StartError::Admin(_) => Exit::Config,
        StartError::Assembly(AssemblyError::Sandbox(_)) | StartError::Watch(_) => Exit::Unexpected,
    }
}

fn of_load(error: &LoadError) -> Exit {
    match error {
        LoadError::Policy(error) => of_policy(error),
        LoadError::Scenarios(_) => Exit::Config,
    }
}

fn of_policy(error: &PolicyError) -> Exit {
    match error {
        PolicyError::Source(error) => of_source(error),
        PolicyError::Signature { .. }
        | PolicyError::Component { .. }
        | PolicyError::Role(_)
        | PolicyError::Probe { .. }
        | PolicyError::Remembered { .. }
        | PolicyError::Panicked { .. }
        | PolicyError::RolledBack { .. }
        | PolicyError::Scenarios { .. } => Exit::Policy,
    }
}

fn of_source(error: &SourceError) -> Exit {
    match error {
        SourceError::Registry { cause, .. } => of_registry(cause),
        SourceError::Bucket { cause, .. } => of_bucket(cause),
        SourceError::Unknown { .. }
        | SourceError::Name { .. }
        | SourceError::Unreadable { .. }
        | SourceError::Missing { .. }
        | SourceError::Empty { .. }
        | SourceError::TooLarge { .. }
        | SourceError::Pin { .. }
        | SourceError::Asking { .. } => Exit::Policy,
        SourceError::Unsupported { .. } | SourceError::Slow { .. } => Exit::Queue,
    }
}

fn of_bucket(error: &BucketError) -> Exit {
    match error {
        BucketError::TooLarge { .. } => Exit::Policy,
        BucketError::Unreachable { .. }
        | BucketError::NotFound { .. }
        | BucketError::Denied { .. }
        | BucketError::Refused { .. } => Exit::Queue,
    }
}

fn of_registry(error: &RegistryError) -> Exit {
    match error {
        RegistryError::Unfit { .. }
        | RegistryError::TooLarge { .. }
        | RegistryError::Changed { .. } => Exit::Policy,
        RegistryError::Unreachable { .. }
        | RegistryError::Plain { .. }
        | RegistryError::Untrusted { .. }
        | RegistryError::NotFound { .. }
        | RegistryError::Denied { .. }
        | RegistryError::Refused { .. } => Exit::Queue,
    }
}

/// Whether line breaks in the error's text are ours. Those of registries, buckets, queues, other hosts and policies could forge a line.
fn has_own_lines(error: &CommandError) -> bool {
    match error {
        CommandError::During { cause, .. } => has_own_lines(cause),
        CommandError::Usage(_)
        | CommandError::ProblemsFound { .. }
        | CommandError::WarningsFound { .. }
        | CommandError::TestsFailed { .. }
        | CommandError::DecisionsDiffer { .. }
        | CommandError::NewlyBroken { .. }
        | CommandError::NoHost(_)
        | CommandError::Failed(_)
        | CommandError::Interrupted(_)
        | CommandError::Input { .. }
        | CommandError::Config(_)
        | CommandError::Scenarios(_)
        | CommandError::Key(_)
        | CommandError::Signing(_)
        | CommandError::Policy(_)
        | CommandError::Compile(_)
        | CommandError::Package(_)
        | CommandError::Store(_)
        | CommandError::Sandbox(_)
        | CommandError::PolicyWatch(_)
        | CommandError::AdminToken(_)
        | CommandError::Start(_)
        | CommandError::Consumer(_)
        | CommandError::New(_)
        | CommandError::Project(_)
        | CommandError::Build(_)
        | CommandError::Toolchain(_)
        | CommandError::Baseline(_)
        | CommandError::Records(_)
        | CommandError::Chart(_)
        | CommandError::Output(_)
        | CommandError::Io(_)
        | CommandError::Csv(_)
        | CommandError::Junit(_)
        | CommandError::FileWatch(_)
        | CommandError::Task(_) => true,
        CommandError::BrokenPolicy(_)
        | CommandError::RollbackRefused { .. }
        | CommandError::DeadLetters(_)
        | CommandError::InvalidSettings(_)
        | CommandError::Undelivered { .. }
        | CommandError::NotMoved(_)
        | CommandError::Redrive(_)
        | CommandError::DeliveryRefused { .. }
        | CommandError::Source(_)
        | CommandError::Signature(_)
        | CommandError::Registry(_)
        | CommandError::Bucket(_)
        | CommandError::Admin(_)
        | CommandError::Target(_)
        | CommandError::Queue(_)
        | CommandError::Message(_)
        | CommandError::Json(_) => false,
    }
}

/// Writes the error and all of its causes to stderr. Returns its exit code.
pub(super) fn report(error: &CommandError) -> ExitCode {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let text = chain(error);
    let text = if has_own_lines(error) {
        harmless(&text)
    } else {
        one_line(&text)
    };
    log::write(&format!("{red}error:{red:#} {text}\n"));
    Exit::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Context, Result};

    #[test]
    fn the_code_is_that_of_the_cause_whatever_the_command_was_doing() {
        let unknown = SourceError::Unknown {
            name: "odd".to_owned(),
        };
        let error: Result<()> = Err(unknown).context("can't sign odd").context("odd");
        let error = error.unwrap_err();
        assert_eq!(Exit::from(&error), Exit::Policy);
        assert!(chain(&error).starts_with("odd: can't sign odd: there is no built-in policy"));
        let other: Result<()> = Err(std::io::Error::other("full")).context("can't write");
        assert_eq!(Exit::from(&other.unwrap_err()), Exit::Unexpected);
    }
}
