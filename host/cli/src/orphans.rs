//! Kills the commands of a host that was killed. A small guard process waits for the host to end, in whatever way, and then kills every process that carries the host's mark: a command must not still run when its message is delivered again.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::Parser;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use backstop_handlers::{HOST, host_mark};

use crate::error::{Context, Result};
use crate::process::close_memory;

/// This program, even if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// The time between two scans for processes.
const SCAN_INTERVAL: Duration = Duration::from_millis(20);

/// At most this many scans, so that the guard ends.
const MAX_SCANS: u32 = 500;

/// The guard ends after this many scans without a match. A process that is just starting is found by the next scan.
const EMPTY_SCANS: u32 = 3;

/// The time before the guard is started again, for each failed start.
const RESTART_DELAY: Duration = Duration::from_secs(1);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(300);

/// Waits for the end of standard input, then kills the processes that carry the mark
#[derive(Debug, Parser)]
pub(super) struct Args {
    mark: String,
}

/// The guard process, for as long as this host runs commands.
pub(super) struct Guard {
    release: CancellationToken,
    guarding: JoinHandle<()>,
}

impl Guard {
    /// Starts the guard, and restarts it if it ends. Only on Linux, where /proc shows processes.
    pub(super) fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            return None;
        }
        let release = CancellationToken::new();
        let released = release.clone();
        let guarding = tokio::spawn(async move {
            released.run_until_cancelled(keep_running()).await;
        });
        Some(Self { release, guarding })
    }

    /// Stops the guard without killing anything: after a clean end, processes that a command left behind on purpose keep running.
    pub(super) async fn release(self) {
        self.release.cancel();
        let _ = self.guarding.await;
    }
}

/// Runs the guard process, again and again.
async fn keep_running() {
    for tries in 1.. {
        let mut guard = Command::new(PROGRAM);
        guard
            .args(["end-orphans", host_mark()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal that the terminal sends to the host's group must not reach it.
            .process_group(0)
            .kill_on_drop(true);
        let ended = match guard.spawn() {
            Ok(mut child) => {
                // Closed only when this process ends.
                let _open = child.stdin.take();
                child.wait().await.map(|status| status.to_string())
            }
            Err(error) => Err(error),
        };
        let ended = ended.unwrap_or_else(|error| error.to_string());
        tracing::warn!(
            ended,
            "the process that kills commands after a crash of the host ended; restarting it"
        );
        // Where it can't run, for example because of a process limit, restarts must stay cheap.
        tokio::time::sleep(RESTART_DELAY.saturating_mul(tries).min(MAX_RESTART_DELAY)).await;
    }
}

/// The guard process.
pub(super) async fn run(args: Args) -> Result<()> {
    // It has the host's environment.
    close_memory();
    // Signals that stop the host are not for the guard, which outlives it.
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        drop(signal(kind).context("can't listen for signals")?);
    }
    let mut nothing = [0; 64];
    while std::io::stdin().read(&mut nothing)? > 0 {}
    let variable = format!("{HOST}={}", args.mark);
    let mut empty_scans = 0;
    for _ in 0..MAX_SCANS {
        empty_scans = match kill_all_with(variable.as_bytes()) {
            0 => empty_scans + 1,
            _ => 0,
        };
        if empty_scans == EMPTY_SCANS {
            break;
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
    Ok(())
}

/// Kills every process with this variable in its environment. Returns how many.
fn kill_all_with(variable: &[u8]) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw)
        .filter(|id| *id != getpid())
        .filter(|id| {
            let path = format!("/proc/{}/environ", id.as_raw_nonzero());
            let environment = std::fs::read(path).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|it| it == variable)
        })
        .filter(|id| kill_process(*id, Signal::KILL).is_ok())
        .count()
}
