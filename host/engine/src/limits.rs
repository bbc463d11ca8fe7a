//! How much a policy may use, and the store limiter that holds it to that.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// The bounds of one policy component in one decision, except for [`Limits::component`], which bounds its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, roughly: wasmtime's fuel. Deterministic.
    pub fuel: u64,
    /// Time on the clock, for where the fuel is set high. Generous, since it depends on the machine.
    pub time: Duration,
    /// Linear memory in bytes, all of its memories together.
    pub memory: usize,
    /// Elements of one table.
    pub table_elements: usize,
    /// Core instances, memories and tables: each at most this many; the pool of instances allows fewer memories and tables.
    pub instances: usize,
    /// Log lines in bytes, together; the rest is dropped.
    pub log: usize,
    /// Bytes that one call may hand to the host: every string of an answer.
    pub strings: usize,
    /// Bytes that calls to the host may move, together: 64 more are counted for each call, and 1088 for each `payload.get`.
    pub payload: usize,
    /// The file in bytes.
    pub component: usize,
    /// What the child process may use that compiles the file, where there is one: see [`Compiler`](crate::Compiler).
    pub compile: CompileLimits,
}

/// The bounds of a child process that compiles one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompileLimits {
    /// Time on the clock. Generous, since it depends on the machine and on what else that does.
    pub time: Duration,
    /// Processor time of all of its threads together, in whole seconds rounded up.
    pub cpu: Duration,
    /// Memory in bytes.
    pub memory: usize,
}

/// An interpreter of 17 MiB, as policies in Python carry it, takes a quarter of this.
impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(300),
            cpu: Duration::from_secs(120),
            memory: 2 << 30,
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

/// What one instance has used, and whether it wanted more than it may have.
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

    /// What was refused, if anything was: the likely cause of a trap that follows.
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
