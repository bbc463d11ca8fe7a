//! The host's log lines, for Python's `logging`. They wait here until a thread of Python takes them: what logs never waits for the interpreter.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use backstop_core::lock::{lock, unpoisoned};
use backstop_logging::{EscapedFields, EventFirst};
use pyo3::prelude::*;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait. Further ones are dropped and counted.
const MOST: usize = 10_000;

/// A level of `logging`, and a line without its end.
type Line = (u32, String);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    dropped: u64,
    /// A thread of Python has taken lines and not yet come back.
    is_taken: bool,
    is_closed: bool,
}

static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();

fn shared() -> &'static Arc<Shared> {
    SHARED.get_or_init(Arc::default)
}

/// Begins to collect lines of this level of `logging` and above. Only the first call does. Whether it did.
#[pyfunction]
pub(crate) fn start_log(level: u32) -> bool {
    let filter = match level {
        0..=9 => "info,backstop=trace",
        10..=19 => "warn,notify=error,rustls_platform_verifier=off,backstop=debug",
        20..=29 => "warn,aws_config=error,notify=error,rustls_platform_verifier=off,backstop=info",
        30..=39 => "warn,aws_config=error,notify=error,rustls_platform_verifier=off",
        _ => "error,rustls_platform_verifier=off",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines(Arc::clone(shared())))
        .with_ansi(false)
        .fmt_fields(EscapedFields)
        .event_format(EventFirst {
            is_bare: true,
            ..EventFirst::default()
        });
    subscriber.try_init().is_ok()
}

/// No more lines are passed on: the interpreter ends.
#[pyfunction]
pub(crate) fn end_log() {
    let shared = shared();
    lock(&shared.state).is_closed = true;
    shared.changed.notify_all();
}

/// Waits for lines, and takes them. `None` once there will be no more.
#[pyfunction]
pub(crate) fn take_log(py: Python<'_>) -> Option<Vec<Line>> {
    py.detach(|| {
        let shared = shared();
        let mut state = lock(&shared.state);
        state.is_taken = false;
        shared.changed.notify_all();
        let until = |state: &mut State| state.lines.is_empty() && !state.is_closed;
        state = unpoisoned(shared.changed.wait_while(state, until));
        if state.lines.is_empty() {
            return None;
        }
        let mut lines: Vec<Line> = state.lines.drain(..).collect();
        if std::mem::take(&mut state.dropped) > 0 {
            lines.push((30, "log lines were lost: logging takes too long".to_owned()));
        }
        state.is_taken = true;
        Some(lines)
    })
}

/// Waits until the lines so far are logged, for at most `seconds`.
#[pyfunction]
pub(crate) fn flush_log(py: Python<'_>, seconds: f64) {
    py.detach(|| {
        let shared = shared();
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let state = lock(&shared.state);
        let until = |state: &mut State| state.is_taken || !state.lines.is_empty();
        drop(shared.changed.wait_timeout_while(state, wait, until));
    });
}

/// Makes a writer for each line.
#[derive(Debug, Clone)]
struct Lines(Arc<Shared>);

/// One line, which is passed on when it is complete.
struct LineWriter {
    level: u32,
    text: Vec<u8>,
    shared: Arc<Shared>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        self.of(Level::INFO)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter {
        self.of(*metadata.level())
    }
}

impl Lines {
    fn of(&self, level: Level) -> LineWriter {
        LineWriter {
            level: match level {
                Level::ERROR => 40,
                Level::WARN => 30,
                Level::INFO => 20,
                Level::DEBUG => 10,
                Level::TRACE => 5,
            },
            text: Vec::new(),
            shared: Arc::clone(&self.0),
        }
    }
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let text = text.trim_end_matches('\n').trim_start();
        if text.is_empty() {
            return;
        }
        let line = (self.level, text.to_owned());
        let mut state = lock(&self.shared.state);
        if state.lines.len() < MOST {
            state.lines.push_back(line);
        } else {
            state.dropped += 1;
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}
