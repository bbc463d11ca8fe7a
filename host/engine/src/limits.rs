//! The limits of a policy, and the store limiter that enforces those of memory.

use std::time::Duration;

use wasmtime::ResourceLimiter;

use crate::container;

/// The limits of one policy component in one decision, except for [`Limits::component`], which limits its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, roughly: wasmtime's fuel. Deterministic.
    pub fuel: u64,
    /// Elapsed time, in case the fuel is set high. Generous, because it depends on the machine.
    pub time: Duration,
    /// Linear memory in bytes, all of its memories together.
    pub memory: usize,
    /// Elements of one table.
    pub table_elements: usize,
    /// Core instances, memories and tables: each at most this many; the pool of instances allows fewer memories and tables.
    pub instances: usize,
    /// Log lines in bytes, together; the rest is dropped.
    pub log: usize,
    /// Bytes that one call may pass to the host: all strings of an answer.
    pub strings: usize,
    /// Bytes that calls to the host may move, together: 64 more are counted for each call, and 1088 for each `payload.get`.
    pub payload: usize,
    /// The file in bytes.
    pub component: usize,
    /// The limits of the child process that compiles the file, if there is one: see [`Compiler`](crate::Compiler).
    pub compile: CompileLimits,
}

/// The limits of a child process that compiles one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompileLimits {
    /// Elapsed time. Generous, since it depends on the load of the machine.
    pub time: Duration,
    /// Processor time of all of its threads together, in whole seconds rounded up.
    pub cpu: Duration,
    /// Memory in bytes.
    pub memory: usize,
}

/// Compiling the 17 MiB interpreter of a Python policy takes a quarter of this.
impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(300),
            cpu: Duration::from_secs(120),
            memory: 2 << 30,
        }
    }
}

impl CompileLimits {
    /// These limits in the container that this program runs in: with at most three quarters of its memory, so that the child reaches its limit before the container does, whose end would be that of the host.
    #[must_use]
    pub(crate) fn within_container(self) -> Self {
        let of_container = container::memory().map_or(usize::MAX, |memory| {
            usize::try_from(memory / 4 * 3).unwrap_or(usize::MAX)
        });
        Self {
            memory: self.memory.min(of_container),
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 50_000_000,
            time: Duration::from_secs(2),
            memory: 64 << 20,
            table_elements: 20_000,
            instances: 64,
            log: 4 << 10,
            strings: 1 << 20,
            payload: 16 << 20,
            component: 64 << 20,
            compile: CompileLimits::default(),
        }
    }
}

/// The memory that one instance uses, and whether it requested more than its limit.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    memory: usize,
    refused: Option<&'static str>,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            memory: 0,
            refused: None,
        }
    }

    /// Linear memory in bytes, all of its memories together.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// The kind of memory that was refused, if any was: the likely cause of a following trap.
    pub(super) fn refused(&self) -> Option<&'static str> {
        self.refused
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.limits.memory {
            self.refused = Some("memory");
            return Ok(false);
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.limits.table_elements {
            self.refused = Some("table elements");
            return Ok(false);
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.instances
    }

    fn memories(&self) -> usize {
        self.limits.instances
    }
}
