//! Why a file is not a policy, or can't be compiled.

use std::fmt;
use std::time::Duration;

use crate::encoding::{EncodingError, INTERFACES};

/// Why a file is not a policy.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// See [`EncodingError`].
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// It is invalid, or uses features that the sandbox does not allow.
    #[error("it does not compile: {0}")]
    Compile(String),
    /// One of those two, as reported by the child process that compiles.
    #[error("{0}")]
    Refused(String),
    /// The child process that compiles gave no answer.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// It has imports that a policy is not granted. All of them are listed.
    #[error(
        "it imports `{0}`, which a policy is not granted: only `backstop:policy/log`, `payload` and `default-classifier`, and WASI 0.2 without network or HTTP"
    )]
    Import(String),
    /// It exports nothing that the host would call.
    #[error("it exports {found}; expected at least one of {}", INTERFACES.join(", "))]
    NoInterface {
        /// Its exports.
        found: String,
    },
    /// An interface of the contract has other functions or types.
    #[error("its `{interface}` differs from wit/policy.wit: {reason}")]
    Interface {
        /// The interface.
        interface: &'static str,
        /// The difference.
        reason: String,
    },
    /// An import has another type than the host's.
    #[error("it does not link: {0}")]
    Link(String),
}

impl ComponentError {
    /// An error of this machine: valid code can't be loaded, because file descriptors, memory or a limit of the process are used up.
    pub(crate) fn of_this_machine(error: wasmtime::Error) -> Self {
        let cause = std::io::Error::other(format!("its code can't be loaded: {error:#}"));
        CompilerError::Process(cause).into()
    }

    pub(crate) fn compile(error: impl fmt::Display) -> Self {
        Self::Compile(format!("{error:#}"))
    }
}

/// Why the child process gave no answer about a file.
#[derive(Debug, thiserror::Error)]
pub enum CompilerError {
    /// Too much elapsed time.
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
    /// The child was killed from outside: by a person, the service manager, or the system when it ran out of memory.
    #[error("the process that compiled it was killed from outside: {0}")]
    Killed(String),
    /// The child can't be started or reached, or there is no memory for its code.
    #[error("this machine can't load it now")]
    Process(#[source] std::io::Error),
    /// The code is no longer wanted: there is a newer version, the host shuts down, or another version can be used in the meantime.
    #[error("it takes long to compile, which continues in the background")]
    Unwanted,
}

impl CompilerError {
    /// Whether the same file may compile later: this machine was busy, or the child was killed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Time(_) | Self::Killed(_) | Self::Process(_) | Self::Unwanted => true,
            Self::Cpu(_) | Self::Memory(_) | Self::Code(_) | Self::Crash(_) => false,
        }
    }

    /// Whether to remember it for the next start, because it cost time and probably would again.
    pub fn is_remembered(&self) -> bool {
        match self {
            Self::Time(_) | Self::Cpu(_) | Self::Memory(_) | Self::Code(_) | Self::Crash(_) => true,
            Self::Killed(_) | Self::Process(_) | Self::Unwanted => false,
        }
    }
}
