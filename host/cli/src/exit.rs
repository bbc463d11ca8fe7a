//! Exit codes: the documented list.

use std::process::ExitCode;

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

/// Whose line breaks the text of an error can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    Ours,
    /// Those of registries, buckets, queues, other hosts and policies could forge a line.
    Foreign,
}
