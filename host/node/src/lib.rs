//! The addon of npm's package `backstop-sqs`, which holds what needs the crates: a host and decisions. The package around it is in `ts`.
//!
//! | module | content |
//! |---|---|
//! | `host` | a host with workers, from its start to its end, and its jobs |
//! | `wake` | the event loop is woken when there are jobs |
//! | `message` | a message, as a handler receives it |
//! | `failure` | errors of JavaScript as errors that a policy classifies |
//! | `log` | the host's log lines, for the program's own log |
//! | `policy` | one decision |
//!
//! Nothing waits or computes for long on the thread of JavaScript.

mod failure;
mod host;
mod log;
mod message;
mod policy;
mod wake;

use backstop_files::values::parse_span;
use napi::{Error, Status};
use napi_derive::napi;

/// An error of JavaScript with this text.
fn error(text: impl ToString) -> Error {
    Error::new(Status::GenericFailure, text.to_string())
}

/// A count as a number of JavaScript.
#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of JavaScript count exactly to 2^53"
)]
fn number(count: u64) -> f64 {
    count as f64
}

/// The milliseconds of a text such as `1m30s`.
#[napi]
pub fn milliseconds(name: String, text: String) -> napi::Result<f64> {
    let span = parse_span(&text).map_err(|why| error(format!("{name}: {why}")))?;
    Ok(span.as_secs_f64() * 1e3)
}

/// Has policies compiled in child processes of this program, which is the command of the same release.
#[napi]
pub fn compile_by(program: String) {
    backstop_embed::compile_by(program.into());
}
