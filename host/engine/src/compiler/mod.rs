//! From a policy's file to machine code: in this process, or in a child process whose memory, processor time and time on the clock are limited.
//!
//! Reading, validating and compiling a stranger's file is where a host can be crashed, kept busy for minutes or filled with gigabytes. A program whose `main` begins with [`compiler_process`] has a child of itself do that: `process` is the host's side, `child` the child's, `answer` what passes between them.

mod answer;
mod child;
mod process;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wasmtime::Engine;

use super::limits::CompileLimits;
use super::{ComponentError, encoding, sandbox};

pub use child::compiler_process;

/// Whether this program answers to the arguments of a child that compiles.
static IS_OWN_COMPILER: AtomicBool = AtomicBool::new(false);

/// Whether what is being compiled is still wanted; looked at many times a second while a child compiles it.
pub type Wanted<'a> = &'a dyn Fn() -> bool;

/// Where policies are compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// In this process, without a limit: what a file does to the compiler it does to this process.
    InProcess,
    /// In a child process for each file, of the program at this path, whose `main` begins with [`compiler_process`].
    Child(PathBuf),
}

impl Compiler {
    /// A child of this program, if its `main` began with [`compiler_process`]; this process if it did not.
    pub fn of_this_program() -> Self {
        if !IS_OWN_COMPILER.load(Ordering::Relaxed) {
            return Self::InProcess;
        }
        if cfg!(target_os = "linux") {
            // The program that runs, whatever an upgrade has put in its place.
            return Self::Child(PathBuf::from("/proc/self/exe"));
        }
        std::env::current_exe().map_or(Self::InProcess, Self::Child)
    }
}

/// A file to be compiled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) file: &'a [u8],
    /// See [`Limits::component`](super::Limits::component).
    pub(super) most: usize,
    /// What a child may use.
    pub(super) limits: CompileLimits,
    /// The processor and system that the code is for, if not this very one.
    pub(super) target: Option<&'a str>,
}

impl Job<'_> {
    /// The machine code, made where `compiler` says. Blocks; a child ends when its code is not `wanted` any more.
    pub(super) fn code(
        &self,
        compiler: &Compiler,
        wanted: Wanted<'_>,
    ) -> Result<Vec<u8>, ComponentError> {
        match compiler {
            Compiler::InProcess => compile(self.file, self.most, self.target),
            Compiler::Child(program) => process::code(program, self, wanted),
        }
    }
}

/// The machine code of a policy's file, made in this process.
fn compile(file: &[u8], most: usize, target: Option<&str>) -> Result<Vec<u8>, ComponentError> {
    let bytes = encoding::component(file, most)?;
    let mut config = sandbox::config(None);
    if let Some(target) = target {
        config.target(target).map_err(ComponentError::compile)?;
    }
    Engine::new(&config)
        .and_then(|engine| engine.precompile_component(&bytes))
        .map_err(ComponentError::compile)
}

/// Why the child process did not come to an answer about a file.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    /// Too long on the clock.
    #[error("compiling it takes longer than the {0:?} that `limits.compile.time` allows")]
    Time(Duration),
    /// Too much processor time.
    #[error(
        "compiling it takes more than the {0:?} of processor time that `limits.compile.cpu` allows"
    )]
    Cpu(Duration),
    /// Too much memory.
    #[error(
        "compiling it takes more than the {} MiB of memory that `limits.compile.memory` allows",
        .0.div_ceil(1 << 20)
    )]
    Memory(usize),
    /// Too much code.
    #[error("its code has more than {0} bytes")]
    Code(u64),
    /// The compiler panicked, ran out of stack or was stopped by the processor.
    #[error("it crashes the compiler, whose process ended with {0}")]
    Crash(String),
    /// Somebody else ended the child: a person, the service manager, or the system when it ran out of memory.
    #[error("the process that compiled it was ended by somebody else: {0}")]
    Killed(String),
    /// There is no child, no way to talk to it, or no room for its code.
    #[error("this machine can't load it now")]
    Process(#[source] std::io::Error),
    /// Something newer is there, the host ends, or there is another version to go on with meanwhile.
    #[error("it takes long to compile, which goes on in the background")]
    Unwanted,
}

impl CompilerError {
    /// Whether the same file may be compiled at another time: this machine was busy, or somebody interfered.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Time(_) | Self::Killed(_) | Self::Process(_) | Self::Unwanted => true,
            Self::Cpu(_) | Self::Memory(_) | Self::Code(_) | Self::Crash(_) => false,
        }
    }

    /// Whether the next start is better off knowing: it cost time, and is likely to again.
    pub fn is_remembered(&self) -> bool {
        match self {
            Self::Time(_) | Self::Cpu(_) | Self::Memory(_) | Self::Code(_) | Self::Crash(_) => true,
            Self::Killed(_) | Self::Process(_) | Self::Unwanted => false,
        }
    }
}
