//! Why a command fails. `causes` has the exit code of every failure, and the list of the errors of other crates.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use backstop_engine::EvaluationError;

use crate::exit::{Exit, Lines};

/// What a command returns.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The flags and arguments do not go together.
    #[error("{0}")]
    Usage(String),
    /// `backstop doctor` found problems.
    #[error("{wrong} of {findings} findings are wrong: see above for what to change")]
    ProblemsFound { wrong: usize, findings: usize },
    /// `backstop doctor --strict` found something to think about.
    #[error(
        "{warnings} of {findings} findings are warnings, which --strict does not allow: see above for what to change"
    )]
    WarningsFound { warnings: usize, findings: usize },
    /// A scenario or a check of `backstop policy test` failed.
    #[error("{failed} of {tests} tests failed")]
    TestsFailed { failed: usize, tests: usize },
    /// More replayed decisions differ than `--allow` permits.
    #[error("{different} of {compared} decisions are different")]
    DecisionsDiffer { different: usize, compared: usize },
    /// The replayed policy breaks on failures that were answered before, which is never allowed.
    #[error("the policy breaks on {broken} of {compared} failures that were answered before")]
    NewlyBroken { broken: usize, compared: usize },
    /// The policy broke on the failure that `backstop policy run` passed to it.
    #[error("the policy {0}: a host would let the fallback decide")]
    BrokenPolicy(EvaluationError),
    /// A running host did not roll a policy back.
    #[error("queue `{queue}`: {reason}")]
    RollbackRefused { queue: String, reason: String },
    /// No running host was found, or none serves the queue.
    #[error("{0}")]
    NoHost(String),
    /// A queue or an archive of dead letters can't be used, or not all of it was done.
    #[error("{0}")]
    DeadLetters(String),
    /// The command could not do its work, and no other variant says why.
    #[error("{0}")]
    Failed(String),
    /// A signal ended the work before it was done.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// A file that the command line names can't be read.
    #[error("can't read {what}")]
    Input {
        what: String,
        #[source]
        cause: io::Error,
    },
    /// A built-in policy rejects its settings.
    #[error("{0}")]
    InvalidSettings(String),
    /// `backstop deliver` could not deliver all entries.
    #[error("not everything was delivered: what is undelivered ({undelivered}) is in {}", .file.display())]
    Undelivered { undelivered: u64, file: PathBuf },
    /// `backstop dlq redrive` has not moved all letters of its set.
    #[error("{0}")]
    NotMoved(String),
    /// `backstop deliver` was stopped by an error that concerns every request.
    #[error("the delivery was stopped ({undelivered} undelivered): {error}")]
    DeliveryRefused {
        undelivered: u64,
        error: Box<backstop_core::failure::Error>,
    },
    /// Another error, and what the command was doing.
    #[error("{doing}")]
    During {
        doing: String,
        #[source]
        cause: Box<CommandError>,
    },
    /// The error of another crate, with its exit code and whose line breaks its text can have.
    #[error("{error}")]
    Cause {
        exit: Exit,
        lines: Lines,
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
}

/// The error of a file, or of standard input as `-`, that the command line names.
pub(crate) fn unreadable(what: &str, path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    let what = if path == Path::new("-") {
        format!("{what} in standard input")
    } else {
        format!("{what} in {}", path.display())
    };
    |cause| CommandError::Input { what, cause }
}

/// Says what the command was doing when it failed. The exit code stays that of the cause.
pub(crate) trait Context<T> {
    /// Puts `doing` before the error's own message.
    fn context(self, doing: impl Display) -> Result<T>;

    /// Puts what `doing` returns before the error's own message.
    fn with_context<D: Display>(self, doing: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<CommandError>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.with_context(|| doing)
    }

    fn with_context<D: Display>(self, doing: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|cause| CommandError::During {
            doing: doing().to_string(),
            cause: Box::new(cause.into()),
        })
    }
}
