//! Why a command fails, and the documented exit codes. `causes` has those of the errors of other crates.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use backstop_files::regular_file::{advise_if_missing, open_any};

/// What a command returns.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// The exit codes, as `--help` lists them.
pub(crate) const EXIT_CODES: &str = "\
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
pub(crate) enum Exit {
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

/// Whose line breaks the text of an error can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    Ours,
    /// Those of registries, buckets, queues, other hosts and policies could forge a line.
    Foreign,
}

/// Why a command fails, with its exit code and whose line breaks the text can have.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) lines: Lines,
    #[source]
    pub(crate) error: Box<dyn Error + Send + Sync>,
}

impl Exit {
    /// Whose line breaks a command's own words can have, with this code: those about policies, queues and entries quote others.
    fn lines(self) -> Lines {
        match self {
            Self::Policy | Self::Queue | Self::Undelivered => Lines::Foreign,
            Self::Success
            | Self::Unexpected
            | Self::Usage
            | Self::Config
            | Self::ProblemsFound
            | Self::TestsFailed
            | Self::Differences
            | Self::Interrupted => Lines::Ours,
        }
    }

    /// The error that ends a command with this code, in the command's own words.
    pub(crate) fn because(self, text: impl Into<String>) -> CommandError {
        CommandError {
            exit: self,
            lines: self.lines(),
            error: text.into().into(),
        }
    }
}

/// An error, and what the command was doing.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
struct During {
    doing: String,
    #[source]
    cause: Box<dyn Error + Send + Sync>,
}

/// The error of a file, or of standard input as `-`, that the command line names.
pub(crate) fn unreadable(what: &str, path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    let doing = if path == Path::new("-") {
        format!("can't read {what} in standard input")
    } else {
        format!("can't read {what} in {}", path.display())
    };
    |cause| CommandError {
        exit: Exit::Config,
        lines: Lines::Ours,
        error: Box::new(During {
            doing,
            cause: cause.into(),
        }),
    }
}

/// The same, with what a file that is missing should be.
pub(crate) fn unreadable_input(
    what: &str,
    path: &Path,
    expected: &'static str,
) -> impl FnOnce(io::Error) -> CommandError {
    let unreadable = unreadable(what, path);
    move |error| unreadable(advise_if_missing(error, || expected.to_owned()))
}

/// Opens a file that the command line names, or standard input as `-`.
pub(crate) fn open_input(
    what: &str,
    path: &Path,
    expected: &'static str,
) -> Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = open_any(path).map_err(unreadable_input(what, path, expected))?;
    Ok(Box::new(file))
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
        self.map_err(|cause| {
            let CommandError { exit, lines, error } = cause.into();
            CommandError {
                exit,
                lines,
                error: Box::new(During {
                    doing: doing().to_string(),
                    cause: error,
                }),
            }
        })
    }
}
