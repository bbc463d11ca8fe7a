//! Signals: the first that asks for the end gets a clean one, a second SIGTERM or SIGINT ends at once. Others that would kill are survived.

use anyhow::Context;
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::log;
use backstop::policy::remove_marks;

/// A token that the first SIGTERM, SIGINT or SIGHUP cancels.
pub(super) fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let mut signals = Ends::listen()?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!(
            "stopping: what is in hand is finished first, and a poll that waits for messages comes back (20 s at most); a second signal ends at once"
        );
        stopped.cancel();
        // A terminal that closes, and systemd with `SendSIGHUP`, send one more.
        signals.hangup = None;
        signals.next().await;
        remove_marks();
        log::flush();
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(stop)
}

/// Until the first of them.
pub(super) async fn stopped() -> anyhow::Result<()> {
    Ends::listen()?.next().await;
    Ok(())
}

/// Has a write beyond the limit of a file's size (`ulimit -f`) fail, which is logged, in place of killing the process.
///
/// SIGPIPE needs no such care: Rust's runtime ignores it. A handler, and not to ignore the signal: programs that are run for messages would inherit that.
pub(super) fn survive_file_size_limit() -> anyhow::Result<()> {
    // The handler stays when what would hear of the signal is dropped.
    drop(signal(SignalKind::from_raw(Number::XFSZ.as_raw())).context("can't listen for SIGXFSZ")?);
    Ok(())
}

/// The signals that ask for the end.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    /// None where it is ignored, as `nohup` has it.
    hangup: Option<Signal>,
}

impl Ends {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("can't listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("can't listen for SIGINT")?,
            hangup: (!is_ignored(Number::HUP))
                .then(|| signal(SignalKind::hangup()).context("can't listen for SIGHUP"))
                .transpose()?,
        })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether whoever started this process has it ignore a signal. Known on Linux alone.
fn is_ignored(signal: Number) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, signal)
}

/// From `/proc/PID/status`: a mask with a bit for each signal, the lowest for signal 1.
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
    fn a_signal_is_ignored_where_its_bit_is_set() {
        let nohup = "Name:\tbackstop\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(nohup, Number::HUP));
        assert!(!ignores(nohup, Number::INT));
        assert!(!ignores("Name:\tbackstop\n", Number::HUP));
    }
}
