//! From a policy's file to machine code: in this process, or in a child process whose memory, processor time and elapsed time are limited.
//!
//! Compiling a hostile file can crash a host, keep it busy for minutes or take gigabytes of memory. A program whose `main` starts with [`compiler_process`] compiles in a child process of itself: `job` is the work, `process` the host's side, `child` the child's, which gives up its `rights` and (in `calls`) those to call the system, and `answer` the messages between them.

pub mod answer;
#[cfg(target_os = "linux")]
mod calls;
mod child;
mod job;
mod process;
mod rights;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::component_error::ComponentError;

pub use child::compiler_process;
pub(crate) use job::Job;
pub use job::Wanted;
pub(crate) use process::MOST_CODE;

/// Where policies are compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// In this process, without limits: a file that crashes the compiler crashes this process.
    InProcess,
    /// In a child process for each file, of the program at this path, whose `main` starts with [`compiler_process`].
    Child(PathBuf),
}

/// The program that compiles for this one, if this one is none of ours.
static BY_PROGRAM: OnceLock<PathBuf> = OnceLock::new();

impl Compiler {
    /// A child of this program, if its `main` started with [`compiler_process`], or of [another one](Self::by_program); otherwise this process.
    pub fn of_this_program() -> Self {
        if child::is_own_compiler() {
            return Self::Child(own_program());
        }
        BY_PROGRAM
            .get()
            .cloned()
            .map_or(Self::InProcess, Self::Child)
    }

    /// Has every [`Sandbox`](crate::Sandbox) created afterwards compile in child processes of the program at this path, whose `main` starts with [`compiler_process`] and which is of the same build: for a process whose `main` is another's, such as Python's. The first call counts.
    pub fn by_program(program: PathBuf) {
        let _ = BY_PROGRAM.set(program);
    }

    /// The machine code of a file. Blocks; a child process is killed when its code is no longer `wanted`.
    pub(crate) fn code(
        &self,
        job: &Job<'_>,
        wanted: Wanted<'_>,
    ) -> Result<Vec<u8>, ComponentError> {
        match self {
            Self::InProcess => job::compile(job.file, job.most, job.target),
            Self::Child(program) => process::code(program, job, wanted),
        }
    }
}

/// The path of the running program.
fn own_program() -> PathBuf {
    // This is the running program even if an upgrade has replaced its file.
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return running;
    }
    // An empty root folder has no /proc: the path with which the program was started, if it was one.
    let named = std::env::args_os().next().map(PathBuf::from);
    let named = named.filter(|path| path.components().count() > 1);
    std::env::current_exe()
        .ok()
        .or_else(|| named?.canonicalize().ok())
        .unwrap_or(running)
}
