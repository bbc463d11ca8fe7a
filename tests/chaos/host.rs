//! A host as a process: `backstop run`, or a program with workers inside, with a configuration, a cache and decision records of its own.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_tests::aws::CREDENTIALS;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::link::Link;
use crate::plan::{HostPlan, Program, QUEUES};
use crate::programs::{self, Packages};

/// How long a start may take before it counts as one that hangs.
const LONGEST_START: Duration = Duration::from_secs(90);

/// How long a host may take to end: its `grace`, four seconds more, and what a busy machine adds.
const LONGEST_STOP: Duration = Duration::from_secs(25);

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) plan: &'static HostPlan,
    pub(crate) program: Program,
    pub(crate) packages: Arc<Packages>,
    pub(crate) to_queue: Link,
    /// By queue.
    pub(crate) to_workers: Vec<(usize, Link)>,
    pub(crate) cache: PathBuf,
    pub(crate) folder: PathBuf,
    /// The time of day that it believes in, if it has one of its own.
    pub(crate) clock: Option<(PathBuf, PathBuf)>,
    /// Held by whoever disturbs it: one at a time.
    pub(crate) process: Mutex<Process>,
}

#[derive(Debug, Default)]
pub(crate) struct Process {
    child: Option<Child>,
    starts: u32,
    /// Each life: its process id, when it was ready and when it ended.
    pub(crate) lives: Vec<Life>,
}

#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Life {
    pub(crate) process: u32,
    pub(crate) ready: u64,
    pub(crate) ended: Option<u64>,
}

impl Host {
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join(match self.program {
            Program::Command => "backstop.toml",
            Program::Python | Program::Node => "program.json",
        })
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.folder.join("decisions.jsonl")
    }

    pub(crate) fn serves(&self, queue: usize) -> bool {
        QUEUES[queue].site == self.plan.site
    }

    pub(crate) fn to_worker(&self, queue: usize) -> &Link {
        let mut links = self.to_workers.iter();
        &links.find(|(of, _)| *of == queue).unwrap().1
    }

    /// Starts it, again if it refuses, and waits until it serves. What its last start said, if it does not.
    pub(crate) async fn up(&self, process: &mut Process) -> Result<(), String> {
        let began = Instant::now();
        loop {
            process.starts += 1;
            let log = self.folder.join(format!("log.{:03}", process.starts));
            let said = match self.start(process, &log).await {
                Ok(()) => return Ok(()),
                Err(said) => said,
            };
            if began.elapsed() > LONGEST_START {
                return Err(said);
            }
            // As a supervisor does.
            sleep(Duration::from_millis(500)).await;
        }
    }

    async fn start(&self, process: &mut Process, log: &Path) -> Result<(), String> {
        let file = std::fs::File::create(log).unwrap();
        let mut command = programs::command(self.program, &self.packages, &self.config());
        command
            .envs(CREDENTIALS)
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .kill_on_drop(true);
        if let Some((library, clock)) = &self.clock {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", clock)
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
        let mut child = command.spawn().unwrap();
        let id = child.id().unwrap();
        let read = || String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
        let began = Instant::now();
        let queues = self.to_workers.len();
        while read().matches(" ready ").count() < queues {
            if let Some(status) = child.try_wait().unwrap() {
                return Err(format!("{status}: {}", last_lines(&read())));
            }
            if began.elapsed() > LONGEST_START {
                child.kill().await.unwrap();
                return Err(format!("not ready in time: {}", last_lines(&read())));
            }
            sleep(Duration::from_millis(20)).await;
        }
        process.child = Some(child);
        process.lives.push(Life {
            process: id,
            ready: clock::now().0,
            ended: None,
        });
        Ok(())
    }

    /// How it has ended, if nobody asked it to.
    pub(crate) fn has_ended(&self, process: &mut MutexGuard<'_, Process>) -> Option<String> {
        let status = process.child.as_mut()?.try_wait().unwrap()?;
        process.gone();
        let log = self.folder.join(format!("log.{:03}", process.starts));
        let log = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
        Some(format!("{status}: {}", last_lines(&log)))
    }

    /// kill -9.
    pub(crate) async fn kill(&self, process: &mut Process) {
        if let Some(child) = &mut process.child {
            child.kill().await.unwrap();
        }
        process.gone();
    }

    /// SIGTERM: how it ends, and after how long. One that does not end is killed.
    pub(crate) async fn stop(&self, process: &mut Process) -> Result<Duration, String> {
        let began = Instant::now();
        process.signal(Signal::TERM);
        let Some(mut child) = process.child.take() else {
            return Ok(Duration::ZERO);
        };
        let ended = tokio::time::timeout(LONGEST_STOP, child.wait()).await;
        let result = match ended.map(Result::unwrap) {
            Ok(status) if status.success() => Ok(began.elapsed()),
            Ok(status) => Err(format!("it ended with {}", said(status))),
            Err(_) => {
                child.kill().await.unwrap();
                Err(format!("it has not ended within {LONGEST_STOP:?}"))
            }
        };
        process.gone();
        result
    }
}

fn said(status: ExitStatus) -> String {
    status.to_string()
}

fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().rev().take(4).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

impl Process {
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref()?.id()
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.id()?).ok()?)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, signal);
        }
    }

    fn gone(&mut self) {
        self.child = None;
        if let Some(life) = self.lives.last_mut() {
            life.ended.get_or_insert(clock::now().0);
        }
    }
}
