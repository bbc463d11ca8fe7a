//! The host's log lines, for the program's own log. They wait here until a thread of the program takes them: what logs never waits for it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use backstop_core::lock::{lock, unpoisoned};
use backstop_logging::{EscapedFields, EventFirst};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait. Further ones are dropped and counted.
const MOST: usize = 10_000;

/// A level, and a line without its end.
pub type Line = (Level, String);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    dropped: u64,
    /// The program's thread has taken lines and not yet come back.
    is_taken: bool,
    is_closed: bool,
}

static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();

fn shared() -> &'static Arc<Shared> {
    SHARED.get_or_init(Arc::default)
}

/// Begins to collect lines of this level and above. Only the first call does. Whether it did.
pub fn start(level: Level) -> bool {
    let filter = match level {
        Level::TRACE => "info,backstop=trace",
        Level::DEBUG => "warn,notify=error,rustls_platform_verifier=off,backstop=debug",
        Level::INFO => {
            "warn,aws_config=error,notify=error,rustls_platform_verifier=off,backstop=info"
        }
        Level::WARN => "warn,aws_config=error,notify=error,rustls_platform_verifier=off",
        Level::ERROR => "error,rustls_platform_verifier=off",
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

/// No more lines are passed on: the program ends.
pub fn end() {
    let shared = shared();
    lock(&shared.state).is_closed = true;
    shared.changed.notify_all();
}

/// Waits for lines, and takes them. `None` once there will be no more.
pub fn take() -> Option<Vec<Line>> {
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
        let lost = "log lines were lost: logging takes too long";
        lines.push((Level::WARN, lost.to_owned()));
    }
    state.is_taken = true;
    Some(lines)
}

/// Waits until the lines so far are logged, for at most this long.
pub fn flush(longest: Duration) {
    let shared = shared();
    let state = lock(&shared.state);
    let until = |state: &mut State| state.is_taken || !state.lines.is_empty();
    drop(shared.changed.wait_timeout_while(state, longest, until));
}

/// Makes a writer for each line.
#[derive(Debug, Clone)]
struct Lines(Arc<Shared>);

/// One line, which is passed on when it is complete.
struct LineWriter {
    level: Level,
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
            level,
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
