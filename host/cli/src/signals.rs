//! Signals: the first stops the command cleanly, a second SIGTERM or SIGINT stops it at once. SIGHUP has a host read its configuration again, if it has one.
//!
//! A shell's `timeout` and a terminal signal a process and then its group, which is one wish to stop: what comes within [`SAME_SIGNAL`] of the first signal is the first one.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use backstop_versions::remove_marks;

use crate::error::{Context, Exit, Result};
use crate::log;

/// Signals this soon after the first one are the same one.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// What a consumer does after the first signal.
pub(super) const STOPPING_CONSUMER: &str =
    "stopping: waiting for messages in progress and for open polls; a second signal stops at once";

/// A token that the first SIGTERM, SIGINT or SIGHUP cancels. `message` is logged then.
pub(super) fn stop_on_signal(message: &'static str) -> Result<CancellationToken> {
    listen(message, None)
}

/// As [`stop_on_signal`], and what SIGHUP notifies instead: several before an answer are one. When the terminal of this process is gone, SIGHUP is its end, and stops.
pub(super) fn stop_or_hang_up(message: &'static str) -> Result<(CancellationToken, Arc<Notify>)> {
    let hung_up = Arc::new(Notify::new());
    let stop = listen(message, Some(Arc::clone(&hung_up)))?;
    Ok((stop, hung_up))
}

fn listen(message: &'static str, hung_up: Option<Arc<Notify>>) -> Result<CancellationToken> {
    let mut signals = StopSignals::listen()?;
    let had_terminal = has_terminal();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        while signals.next().await == Received::Hangup
            && let Some(hung_up) = &hung_up
            && (!had_terminal || has_terminal())
        {
            hung_up.notify_one();
        }
        let first = Instant::now();
        tracing::info!("{message}");
        stopped.cancel();
        // A closing terminal, and systemd with `SendSIGHUP`, send SIGHUP after another signal.
        signals.hangup = None;
        signals.next().await;
        while is_same(first.elapsed()) {
            signals.next().await;
        }
        remove_marks();
        log::flush();
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(stop)
}

/// Whether this process has a terminal: one that has closed is gone.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether a signal this long after the first one is the same one.
fn is_same(after: Duration) -> bool {
    after < SAME_SIGNAL
}

/// Waits for the first SIGTERM, SIGINT or SIGHUP.
pub(super) async fn stopped() -> Result<()> {
    StopSignals::listen()?.next().await;
    Ok(())
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail, and be logged, instead of killing the process.
///
/// This installs a handler for SIGXFSZ. Ignoring the signal would be inherited by the commands that run for messages. SIGPIPE needs nothing: Rust's runtime ignores it.
pub(super) fn survive_file_size_limit() -> Result<()> {
    // The handler stays installed when the receiver is dropped.
    drop(signal(SignalKind::from_raw(Number::XFSZ.as_raw())).context("can't listen for SIGXFSZ")?);
    Ok(())
}

/// The signals that stop the command.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// None if it is ignored, as under `nohup`.
    hangup: Option<Signal>,
}

/// What was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    Stop,
    Hangup,
}

impl StopSignals {
    fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("can't listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("can't listen for SIGINT")?,
            hangup: (!is_ignored(Number::HUP))
                .then(|| signal(SignalKind::hangup()).context("can't listen for SIGHUP"))
                .transpose()?,
        })
    }

    async fn next(&mut self) -> Received {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Received::Stop,
            _ = self.interrupt.recv() => Received::Stop,
            _ = hangup => Received::Hangup,
        }
    }
}

/// Whether this process was started with the signal ignored. Known only on Linux.
fn is_ignored(signal: Number) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, signal)
}

/// Reads the mask in `/proc/PID/status`: one bit for each signal, the lowest for signal 1.
fn ignores(status: &str, signal: Number) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_of_the_first_are_the_same_one() {
        for (milliseconds, expected) in [(0, true), (999, true), (1_000, false)] {
            let after = Duration::from_millis(milliseconds);
            assert_eq!(is_same(after), expected, "{after:?}");
        }
    }

    #[test]
    fn a_signal_is_ignored_if_its_bit_is_set() {
        let nohup = "Name:\tbackstop\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(nohup, Number::HUP));
        assert!(!ignores(nohup, Number::INT));
        assert!(!ignores("Name:\tbackstop\n", Number::HUP));
    }
}
