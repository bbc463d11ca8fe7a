//! The end of commands whose host was killed. A small process of its own waits for the host's end, however that comes, and then ends every process that bears the host's mark: a command must not be at work when its message comes again.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use backstop::handler::{HOST, host_mark};

/// This program, whatever has become of its file since.
const PROGRAM: &str = "/proc/self/exe";

/// Between two looks for processes, and between two starts of the process that waits.
const PAUSE: Duration = Duration::from_millis(20);
const RESTART: Duration = Duration::from_secs(1);
const LONGEST_RESTART: Duration = Duration::from_secs(300);

/// Waits for the end of standard input, then ends what bears the mark
#[derive(Debug, Parser)]
pub(super) struct Args {
    mark: String,
}

/// The process that waits, for as long as this host runs commands.
pub(super) struct Guard {
    release: CancellationToken,
    guarding: JoinHandle<()>,
}

impl Guard {
    /// Starts it, and again should it end. Only where processes can be looked at: on Linux.
    pub(super) fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            return None;
        }
        let release = CancellationToken::new();
        let released = release.clone();
        let guarding = tokio::spawn(async move {
            released.run_until_cancelled(guard()).await;
        });
        Some(Self { release, guarding })
    }

    /// Ends it without a look: what a command has left behind on purpose stays after a clean end.
    pub(super) async fn release(self) {
        self.release.cancel();
        let _ = self.guarding.await;
    }
}

async fn guard() {
    for tries in 1.. {
        let mut waiting = Command::new(PROGRAM);
        waiting
            .args(["end-orphans", host_mark()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Not ended by what a terminal sends to the host's group.
            .process_group(0)
            .kill_on_drop(true);
        let ended = match waiting.spawn() {
            Ok(mut child) => {
                // Closed by the end of this process and by nothing else.
                let _open = child.stdin.take();
                child.wait().await.map(|status| status.to_string())
            }
            Err(error) => Err(error),
        };
        let ended = ended.unwrap_or_else(|error| error.to_string());
        tracing::warn!(
            ended,
            "the process that ends commands after a crash of the host is not there: started again"
        );
        // Where it can't live, as under a limit of processes, its starts are not to cost much.
        tokio::time::sleep(RESTART.saturating_mul(tries).min(LONGEST_RESTART)).await;
    }
}

/// What that process does.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    // Whatever ends the host in an orderly way is not meant for this one, which outlives it.
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
    // A process that is just being started is found the next time.
    let mut looks_in_vain = 0;
    for _ in 0..500 {
        looks_in_vain = match end_all_with(variable.as_bytes()) {
            0 => looks_in_vain + 1,
            _ => 0,
        };
        if looks_in_vain == 3 {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Kills every process that has this in its environment; how many.
fn end_all_with(variable: &[u8]) -> usize {
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
