//! The workers as processes: one of our own and one in Python for each site.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_tests::documents::top;
use backstop_tests::emulator::{free_port, services};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::plan::QUEUES;

#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) port: u16,
    pub(crate) lines: PathBuf,
    log: PathBuf,
    python: bool,
    forgets: bool,
    pub(crate) child: Mutex<Option<Child>>,
}

impl WorkerProcess {
    /// That of a queue.
    pub(crate) async fn start(queue: usize, folder: &Path, forgets: bool) -> Self {
        let name = QUEUES[queue].name;
        let worker = Self {
            port: free_port(),
            lines: folder.join(format!("worker-{name}.jsonl")),
            log: folder.join(format!("worker-{name}.log")),
            python: QUEUES[queue].python,
            forgets,
            child: Mutex::default(),
        };
        std::fs::File::create(&worker.lines).unwrap();
        worker.up(&mut *worker.child.lock().await).await;
        worker
    }

    pub(crate) async fn up(&self, child: &mut Option<Child>) {
        let log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&self.log);
        let log = log.unwrap();
        let port = self.port.to_string();
        let mut command = if self.python {
            let mut command = Command::new(services().join("python/bin/python"));
            command
                .arg(top().join("tests/chaos/worker.py"))
                .arg(&port)
                .arg(&self.lines);
            command
        } else {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["worker", "--port", &port, "--lines"])
                .arg(&self.lines);
            if self.forgets {
                command.arg("--forgets");
            }
            command
        };
        let started = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        *child = Some(started.unwrap());
        for _ in 0..1_000 {
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("a worker did not start: see {}", self.log.display());
    }

    pub(crate) async fn kill(&self, child: &mut Option<Child>) {
        if let Some(mut child) = child.take() {
            child.kill().await.unwrap();
        }
    }

    pub(crate) fn signal(child: Option<&Child>, signal: Signal) {
        let id = child
            .and_then(Child::id)
            .and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}
