//! Log lines on stderr, coloured on a terminal only.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use super::LogFormat;
use crate::log::EscapedFields;

/// Starts logging. A `quiet` command has lines of its own and leaves the log to warnings that nobody expects.
pub(super) fn start(format: LogFormat, verbose: u8, quiet: bool) {
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
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr);
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
}
