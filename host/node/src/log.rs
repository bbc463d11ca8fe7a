//! The host's log lines, for the program's own log.

use std::thread;

use backstop_embed::log;
use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tracing::Level;

use crate::error;

/// A function of JavaScript that is called with lines. It does not keep a program from its end.
type Write = ThreadsafeFunction<Vec<Line>, (), Vec<Line>, Status, false, true>;

/// One line of the log.
#[napi(object, object_from_js = false)]
pub(crate) struct Line {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    pub text: String,
}

/// Passes lines of this level and above on from now on. Only the first call in a process does. Whether it did.
#[napi]
pub(crate) fn start_log(level: String, write: Write) -> napi::Result<bool> {
    let level: Level = level
        .parse()
        .map_err(|_| error("log: the level is unknown"))?;
    if !log::start(level) {
        return Ok(false);
    }
    let thread = thread::Builder::new().name("backstop-log".to_owned());
    let passing_on = thread.spawn(move || {
        while let Some(lines) = log::take() {
            let lines = lines.into_iter().map(|(level, text)| Line {
                level: level.as_str().to_ascii_lowercase(),
                text,
            });
            write.call(lines.collect(), ThreadsafeFunctionCallMode::NonBlocking);
        }
    });
    passing_on.map(|_| true).map_err(error)
}
