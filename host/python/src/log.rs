//! The host's log lines, for Python's `logging`, whose levels are numbers.

use std::time::Duration;

use backstop_embed::log;
use pyo3::prelude::*;
use tracing::Level;

/// Begins to collect lines of this level of `logging` and above. Only the first call does. Whether it did.
#[pyfunction]
pub(crate) fn start_log(level: u32) -> bool {
    log::start(match level {
        0..=9 => Level::TRACE,
        10..=19 => Level::DEBUG,
        20..=29 => Level::INFO,
        30..=39 => Level::WARN,
        _ => Level::ERROR,
    })
}

/// No more lines are passed on: the interpreter ends.
#[pyfunction]
pub(crate) fn end_log() {
    log::end();
}

/// Waits for lines, and takes them. `None` once there will be no more.
#[pyfunction]
pub(crate) fn take_log(py: Python<'_>) -> Option<Vec<(u32, String)>> {
    let lines = py.detach(log::take)?;
    let numbered = lines.into_iter().map(|(level, line)| (number(level), line));
    Some(numbered.collect())
}

/// Waits until the lines so far are logged, for at most `seconds`.
#[pyfunction]
pub(crate) fn flush_log(py: Python<'_>, seconds: f64) {
    let longest = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| log::flush(longest));
}

fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}
