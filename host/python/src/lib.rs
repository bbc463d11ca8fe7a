//! The module `backstop._native` of Python's package `backstop`, which holds what needs the crates: a host, decisions, the steps of retried calls.
//!
//! | module | content |
//! |---|---|
//! | `failure` | exceptions as errors |
//! | `message` | a message, as a handler receives it |
//! | `jobs` | attempts that wait for Python, and who takes them |
//! | `threads` | which of Python's threads takes the next one |
//! | `host` | a host with workers, from its start to its end |
//! | `log` | the host's log lines, for Python's `logging` |
//! | `policy` | one decision |
//! | `retry` | calls that are retried |
//! | `trial` | workers in virtual time, for their tests |
//! | `events` | the envelope of the Lambda retry handler |
//!
//! Whatever waits or computes does so without the interpreter's lock.

mod events;
mod failure;
mod host;
mod jobs;
mod log;
mod message;
mod policy;
mod retry;
mod threads;
mod trial;

use pyo3::prelude::*;

/// What the package is made of. Its modules say how it is used.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::events::open_envelope;
    #[pymodule_export]
    use super::host::{Host, compile_by};
    #[pymodule_export]
    use super::jobs::{Job, Jobs};
    #[pymodule_export]
    use super::log::{end_log, flush_log, start_log, take_log};
    #[pymodule_export]
    use super::message::Message;
    #[pymodule_export]
    use super::policy::{Decision, Policy};
    #[pymodule_export]
    use super::retry::{Breaker, Budget, Call, Clock, Retrier, Step, seconds};
    #[pymodule_export]
    use super::trial::{Attempt, Trial, Tried};
}

/// An error with its causes, as the text of an exception.
fn text(error: &(dyn std::error::Error + 'static)) -> String {
    backstop_core::text::chain(error)
}
