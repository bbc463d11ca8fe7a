//! The host's log lines, for the program's own log.

use std::sync::Mutex;
use std::thread;

use backstop_core::lock::lock;
use backstop_embed::log;
use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tracing::Level;

use crate::error;

/// A function of JavaScript that is called with lines. It does not keep a program from its end.
type Write = ThreadsafeFunction<Vec<Line>, (), Vec<Line>, Status, false, true>;

/// One for each thread of JavaScript that runs workers. The first one that has not ended gets the lines, which are those of the process.
static WRITERS: Mutex<Vec<Write>> = Mutex::new(Vec::new());

/// One line of the log.
#[napi(object, object_from_js = false)]
#[derive(Clone)]
pub(crate) struct Line {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    pub text: String,
}

/// Passes lines on from now on. The level is that of the first call in a process.
#[napi]
pub(crate) fn start_log(level: String, write: Write) -> napi::Result<()> {
    let level: Level = level
        .parse()
        .map_err(|_| error("log: the level is unknown"))?;
    let mut writers = lock(&WRITERS);
    if log::start(level) {
        let thread = thread::Builder::new().name("backstop-log".to_owned());
        thread.spawn(pass_on).map_err(error)?;
    }
    writers.push(write);
    Ok(())
}

/// Passes lines on until the program ends.
fn pass_on() {
    while let Some(lines) = log::take() {
        let lines = lines.into_iter().map(|(level, text)| Line {
            level: level.as_str().to_ascii_lowercase(),
            text,
        });
        let lines: Vec<Line> = lines.collect();
        let mut writers = lock(&WRITERS);
        while let Some(write) = writers.first() {
            let status = write.call(lines.clone(), ThreadsafeFunctionCallMode::NonBlocking);
            if status == Status::Ok {
                break;
            }
            // Its thread of JavaScript has ended.
            writers.remove(0);
        }
    }
}
