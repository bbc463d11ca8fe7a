//! The child processes in which a host compiles policies: found, suspended and ended by a test.

use std::path::PathBuf;
use std::time::Duration;

use backstop_core::clock;

use rustix::process::{Pid, Signal, kill_process};

/// How long an expected event may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A valid policy with this delay that takes seconds to compile: many functions, none of them large.
pub fn heavy(milliseconds: u32) -> String {
    let body = "local.get 0 i32.const 7 i32.mul local.set 0 ".repeat(40);
    let functions = format!("(func (param i32) (result i32) {body} local.get 0)\n").repeat(4_000);
    format!(
        r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export "backstop:policy/backoff@0.1.0#delay") (param i32) (result i32) (i32.const {milliseconds}))
        {functions})"#
    )
}

/// A compiling child process, suspended until it is ended.
#[derive(Debug)]
pub struct Held(Pid);

impl Held {
    /// Waits for a child in which the process `host` compiles, and suspends it.
    pub fn of(host: u32) -> Self {
        let started = clock::instant();
        loop {
            if let Some(child) = compilers(host).first() {
                kill_process(*child, Signal::STOP).unwrap();
                return Self(*child);
            }
            assert!(
                started.elapsed() < PATIENCE,
                "waited for 60 s in vain for a child"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it with this signal.
    pub fn end(self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
        kill_process(self.0, Signal::CONT).unwrap();
    }

    /// A file about it in `/proc`.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// The numbers of its open descriptors, in order.
    pub fn descriptors(&self) -> Vec<String> {
        let open = std::fs::read_dir(self.path().join("fd")).unwrap();
        let names = open.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.0.as_raw_nonzero()))
    }

    /// Waits until it has exited.
    pub fn gone(&self) {
        let path = self.path();
        let started = clock::instant();
        while std::fs::exists(&path).unwrap() {
            let shown = path.display();
            assert!(started.elapsed() < PATIENCE, "{shown} is there after 60 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The children of this process that compile, once they have limited themselves.
fn compilers(host: u32) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{host}/task"));
    let children = tasks.into_iter().flatten().flatten().flat_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children"));
        let children = children.unwrap_or_default();
        let ids: Vec<i32> = children
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect();
        ids
    });
    children
        .filter(|id| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let limits = std::fs::read_to_string(format!("/proc/{id}/limits"));
            let limits = limits.unwrap_or_default();
            // The last of them: the address space.
            let mut last = limits
                .lines()
                .filter(|line| line.starts_with("Max address space"));
            line.starts_with(b"backstop-compiler\0") && last.any(|line| !line.contains("unlimited"))
        })
        .filter_map(Pid::from_raw)
        .collect()
}
