//! The exit code of every error, and how it is shown.

use std::process::ExitCode;

use backstop_core::text::{chain, harmless, one_line};
use backstop_dead_letters::redrive::RedriveError;
use backstop_deliver::OpenError;
use backstop_engine::{CompileError, SandboxError};
use backstop_host::admin::{ClientError, TokenError};
use backstop_host::assembly::{AssemblyError, LoadError};
use backstop_host::config::ConfigError;
use backstop_host::consumer::Faults;
use backstop_host::iam::IamError;
use backstop_host::service::{QueueFault, StartError};
use backstop_host::traces::StartError as TracesError;
use backstop_queue::{EntryError, QueueError};
use backstop_versions::{
    BucketError, KeyError, PackageError, PolicyError, RegistryError, SignatureError, SigningError,
    SourceError, StoreError, WatchError,
};
use backstop_workbench::chart::ChartError;
use backstop_workbench::export::ExportError;
use backstop_workbench::replay::ReadError;
use backstop_workbench::scenario::ScenarioError;
use backstop_workbench::simulate::contention::contender::BaselineError;
use backstop_workbench::{BuildError, NewError, ProjectError, ToolError};

use crate::error::{CommandError, Exit, Lines};
use crate::hosts::NoHost;
use crate::log;
use crate::terminal::output::OutputError;
use crate::terminal::style::RED;

/// The errors of other crates that a command returns: the exit code of each, and whose line breaks its text can have.
macro_rules! causes {
    ($($exit:expr, $lines:ident: $($error:ty),+;)*) => {$($(
        impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                let exit: fn(&$error) -> Exit = $exit;
                Self {
                    exit: exit(&error),
                    lines: Lines::$lines,
                    error: Box::new(error),
                }
            }
        }
    )+)*};
}

causes! {
    |_| Exit::Usage, Ours: BaselineError;
    of_client, Foreign: ClientError;
    |_| Exit::Config, Ours: ConfigError, KeyError, ReadError, ScenarioError, SigningError,
        TokenError, TracesError;
    |_| Exit::Policy, Ours: BuildError, CompileError, PackageError, ProjectError, ToolError;
    of_policy, Ours: PolicyError;
    |_| Exit::Policy, Foreign: ExportError, SignatureError;
    of_source, Foreign: SourceError;
    of_bucket, Foreign: BucketError;
    |_| Exit::Queue, Ours: NoHost;
    |_| Exit::Queue, Foreign: OpenError;
    of_iam, Foreign: IamError;
    of_redrive, Foreign: RedriveError;
    of_registry, Foreign: RegistryError;
    of_start, Ours: StartError;
    |_| Exit::Unexpected, Ours: ChartError, Faults, NewError, OutputError, SandboxError, StoreError,
        WatchError, csv::Error, notify::Error, quick_junit::SerializeError, std::io::Error,
        tokio::task::JoinError;
    |_| Exit::Unexpected, Foreign: EntryError, QueueError, serde_json::Error;
}

fn of_client(error: &ClientError) -> Exit {
    if matches!(error, ClientError::Url { .. }) {
        Exit::Usage
    } else {
        Exit::Queue
    }
}

fn of_iam(error: &IamError) -> Exit {
    match error {
        IamError::Queue { .. } => Exit::Queue,
        IamError::AnyFunction | IamError::NoRetryQueue => Exit::Config,
    }
}

fn of_redrive(error: &RedriveError) -> Exit {
    match error {
        RedriveError::NoTarget { .. }
        | RedriveError::Itself { .. }
        | RedriveError::OtherQueue { .. }
        | RedriveError::Unsettled { .. }
        | RedriveError::Locked { .. }
        | RedriveError::LeftBehind { .. }
        | RedriveError::NoCopies
        | RedriveError::OtherPlan { .. }
        | RedriveError::NoRun { .. } => Exit::Usage,
        RedriveError::Queue(_)
        | RedriveError::Read(_)
        | RedriveError::OwnRedrive { .. }
        | RedriveError::Target { .. }
        | RedriveError::Unusable { .. }
        | RedriveError::Active { .. } => Exit::Queue,
        RedriveError::Io(_) | RedriveError::Copies(_) | RedriveError::Editor(_) => Exit::Unexpected,
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
        | StartError::Traces(_)
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
        | SourceError::Folder { .. }
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

/// Writes the error and all of its causes to stderr. Returns its exit code.
pub(super) fn report(error: &CommandError) -> ExitCode {
    let text = chain(error);
    let text = match error.lines {
        Lines::Ours => harmless(&text),
        Lines::Foreign => one_line(&text),
    };
    log::write(&format!("{RED}error:{RED:#} {text}\n"));
    error.exit.into()
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
        assert_eq!(error.exit, Exit::Policy);
        assert!(chain(&error).starts_with("odd: can't sign odd: there is no built-in policy"));
        let other: Result<()> = Err(std::io::Error::other("full")).context("can't write");
        assert_eq!(other.unwrap_err().exit, Exit::Unexpected);
    }
}
