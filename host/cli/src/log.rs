//! Log lines on stderr, coloured on a terminal only. Logging never waits and never fails: see [`BackgroundWriter`].

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, stderr};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::LogFormat;
use backstop_logging::BackgroundWriter;
use backstop_logging::EscapedFields;

/// How long the end waits for the last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static STDERR: OnceLock<BackgroundWriter> = OnceLock::new();

/// Starts logging. A `quiet` command has lines of its own and leaves the log to warnings that nobody expects.
pub(super) fn start(format: LogFormat, verbose: u8, quiet: bool) -> io::Result<()> {
    // What its verifier logs is in the error of the request, too.
    let level = match (quiet, verbose) {
        (true, 0) => "off",
        (true, 1) | (false, 0) => {
            "warn,aws_config=error,rustls_platform_verifier=off,backstop=info"
        }
        (true, _) | (false, 1) => "warn,rustls_platform_verifier=off,backstop=debug",
        (false, _) => "info,backstop=trace,aws_smithy_runtime=debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let writer = BackgroundWriter::to(stderr(), |lines| {
        tracing::warn!(
            lines,
            "log lines were lost: standard error could not be written"
        );
    })?;
    let writer = STDERR.get_or_init(|| writer).clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    match format {
        LogFormat::Text => {
            let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            subscriber
                .fmt_fields(EscapedFields)
                .with_ansi(colour)
                .with_target(false)
                .init();
        }
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Has panics logged in place of being written to stderr, where a reader that has stopped would hold up the thread.
pub(super) fn panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            tracing::error!("{panic}\n{backtrace}");
        } else {
            tracing::error!("{panic}");
        }
        if std::thread::current().name() == Some("main") {
            // The process ends.
            flush();
        }
    }));
}

/// Writes a text to stderr after the log lines so far. Styles are left out where stderr is not a terminal that shows them.
pub(super) fn say(text: &str) {
    let choice = anstream::AutoStream::choice(&stderr());
    let mut line = anstream::AutoStream::new(Vec::new(), choice);
    let line = match io::Write::write_all(&mut line, text.as_bytes()) {
        Ok(()) => line.into_inner(),
        Err(_) => text.as_bytes().to_vec(),
    };
    match STDERR.get() {
        Some(writer) => writer.write(&line),
        // Nothing was started yet that could be held up.
        None => drop(io::Write::write_all(&mut stderr(), &line)),
    }
}

/// Waits for the lines so far to be written, but not for a reader that has stopped.
pub(super) fn flush() {
    if let Some(writer) = STDERR.get() {
        writer.flush(FLUSH_TIMEOUT);
    }
}
