//! Log lines on stderr, in colour only on a terminal. Logging never blocks and never fails: see [`BackgroundWriter`].

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, stderr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backstop_logging::{BackgroundWriter, EscapedFields, EscapedJson, EventFirst, Storm};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How long to wait for the last lines to be written at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

static STDERR: OnceLock<BackgroundWriter> = OnceLock::new();

static STORM: OnceLock<Arc<Storm>> = OnceLock::new();

/// Starts logging. A `quiet` command prints its own output and logs nothing unless `verbose` asks for it. Without `verbose`, a storm has a line a second for each cause.
pub(super) fn start(format: LogFormat, verbose: u8, quiet: bool) -> io::Result<()> {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(default_filter(verbose, quiet)));
    let writer = BackgroundWriter::to(stderr(), |lines| {
        tracing::warn!(
            lines,
            "log lines were lost: standard error can't be written"
        );
    })?;
    let writer = STDERR.get_or_init(|| writer).clone();
    let storm = (verbose == 0).then(Storm::start).transpose()?;
    let storm = storm.map(|storm| Arc::clone(STORM.get_or_init(|| storm)));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    match format {
        LogFormat::Text => {
            let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            subscriber
                .fmt_fields(EscapedFields)
                .with_ansi(colour)
                .event_format(EventFirst {
                    storm,
                    ..EventFirst::default()
                })
                .init();
        }
        LogFormat::Json => subscriber
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .map_event_format(|format| EscapedJson {
                format,
                host: host_name(),
                storm,
            })
            .init(),
    }
    Ok(())
}

/// The name of this machine or container, as far as it is plain text.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok())?;
    let name = name.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (!name.is_empty() && name.chars().all(is_plain)).then(|| name.to_owned())
}

/// What is logged where `RUST_LOG` does not say it.
///
/// Of two libraries, the warnings say nothing that is not logged anyway: what the TLS verifier logs is also in the error of the request, and a folder that can no longer be watched, because it was removed, is an update check.
fn default_filter(verbose: u8, quiet: bool) -> &'static str {
    match (quiet, verbose) {
        (true, 0) => "off",
        (true, 1) | (false, 0) => {
            "warn,aws_config=error,notify=error,rustls_platform_verifier=off,backstop=info"
        }
        (true, _) | (false, 1) => "warn,notify=error,rustls_platform_verifier=off,backstop=debug",
        (false, _) => "info,backstop=trace,aws_smithy_runtime=debug",
    }
}

/// Logs panics. Written to stderr directly, they would block the thread if the reader of stderr has stopped.
pub(super) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            tracing::error!("{panic}\n{backtrace}");
        } else {
            tracing::error!("{panic}");
        }
        if std::thread::current().name() == Some("main") {
            // The process is about to end.
            flush();
        }
    }));
}

/// Writes a text to stderr, after the log lines so far. Styles are removed unless stderr is a terminal.
pub(super) fn write(text: &str) {
    let choice = anstream::AutoStream::choice(&stderr());
    let mut line = anstream::AutoStream::new(Vec::new(), choice);
    let line = match io::Write::write_all(&mut line, text.as_bytes()) {
        Ok(()) => line.into_inner(),
        Err(_) => text.as_bytes().to_vec(),
    };
    match STDERR.get() {
        Some(writer) => writer.write(&line),
        // Logging has not started: nothing else is running that this could block.
        None => drop(io::Write::write_all(&mut stderr(), &line)),
    }
}

/// Waits until the lines so far are written, or until the timeout if the reader has stopped.
pub(super) fn flush() {
    if let Some(storm) = STORM.get() {
        storm.finish();
    }
    if let Some(writer) = STDERR.get() {
        writer.flush(FLUSH_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_bookkeeping_of_the_library_that_watches_folders_is_not_logged_by_default() {
        for (verbose, quiet, is_logged) in [
            (0, false, false),
            (1, false, false),
            (1, true, false),
            (2, true, false),
            (2, false, true),
        ] {
            let filter = EnvFilter::new(default_filter(verbose, quiet));
            let subscriber = tracing_subscriber::fmt().with_env_filter(filter).finish();
            tracing::subscriber::with_default(subscriber, || {
                let of_notify = tracing::enabled!(target: "notify::inotify", Level::WARN);
                let of_ours = tracing::enabled!(target: "backstop_versions", Level::WARN);
                assert_eq!((of_notify, of_ours), (is_logged, true), "{verbose} {quiet}");
            });
        }
    }
}
