//! The engine that every policy runs in: where instances get their memory, how many run at once, and the clock that stops them.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use backstop_core::lock::{lock, unpoisoned};
use wasmtime::{Engine, PoolingAllocationConfig};

use crate::compiled::Compiled;
use crate::compiler::Compiler;
use crate::config::config;
use crate::limits::Limits;

/// How often the engine's epoch advances: the resolution of [`Limits::time`].
const TICK: Duration = Duration::from_millis(10);

/// The maximum number of decisions at once. More would only wait for a processor.
pub const DECISIONS: u32 = 16;

/// Instances in the pool: one for each component of a decision's policy, at most three.
const INSTANCES: u32 = 3 * DECISIONS;

/// Where policies run: an engine, its limits, and the decisions in progress.
///
/// Cheap to clone; clones share the engine. No data is shared between decisions: each has fresh instances.
#[derive(Clone)]
#[must_use = "it is for the policies that are loaded into it"]
pub struct Sandbox {
    pub(super) engine: Engine,
    pub(super) limits: Limits,
    pub(super) compiled: Compiled,
    pub(super) compiler: Compiler,
    slots: Arc<Slots>,
}

backstop_core::shown!(Sandbox, sandbox => limits = sandbox.limits);

/// The engine can't be set up on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("can't set up the sandbox: {0}")]
pub struct SandboxError(String);

impl SandboxError {
    fn of(error: impl fmt::Display) -> Self {
        Self(format!("{error:#}"))
    }
}

impl Sandbox {
    /// A sandbox with these limits. Instances come from a pool if the machine grants the address space for one; otherwise each is allocated by itself.
    pub fn new(limits: Limits) -> Result<Self, SandboxError> {
        match Engine::new(&config(Some(pool(&limits)))) {
            Ok(engine) => Self::with_engine(engine, limits),
            Err(refused) => {
                tracing::debug!(reason = %refused, "no pool of instances on this machine: each instance is allocated by itself");
                Self::on_demand(limits)
            }
        }
    }

    /// A sandbox without a pool of instances: slower, for a machine that limits address space.
    pub fn on_demand(limits: Limits) -> Result<Self, SandboxError> {
        let engine = Engine::new(&config(None)).map_err(SandboxError::of)?;
        Self::with_engine(engine, limits)
    }

    fn with_engine(engine: Engine, mut limits: Limits) -> Result<Self, SandboxError> {
        limits.compile = limits.compile.within_container();
        tick(&engine).map_err(SandboxError::of)?;
        Ok(Self {
            engine,
            limits,
            compiled: Compiled::default(),
            compiler: Compiler::of_this_program(),
            slots: Arc::new(Slots::new(DECISIONS)),
        })
    }

    /// Sets the folders of compiled policies.
    pub fn with_compiled(mut self, compiled: Compiled) -> Self {
        self.compiled = compiled;
        self
    }

    /// Sets where policies are compiled.
    pub fn with_compiler(mut self, compiler: Compiler) -> Self {
        self.compiler = compiler;
        self
    }

    /// Sets the maximum number of decisions at once: from 1 to the size of the pool.
    pub fn deciding_at_once(mut self, decisions: u32) -> Self {
        self.slots = Arc::new(Slots::new(decisions.clamp(1, DECISIONS)));
        self
    }

    /// The folders of compiled policies.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The limits of each policy.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A value that is equal for sandboxes that compile files in the same way, with the same limits.
    pub fn compilation(&self) -> impl Hash {
        (
            self.engine.precompile_compatibility_hash(),
            self.limits.compile,
        )
    }

    /// The most ticks of the engine's epoch that a decision may last.
    pub(super) fn ticks(&self) -> u64 {
        let ticks = self.limits.time.as_millis().div_ceil(TICK.as_millis());
        u64::try_from(ticks).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Waits for a place among the decisions in progress, so that the pool never runs out of instances.
    pub(super) fn slot(&self) -> Slot<'_> {
        self.slots.take()
    }

    /// A place among the decisions in progress, if there is one.
    pub(super) fn free_slot(&self) -> Option<Slot<'_>> {
        self.slots.take_free()
    }

    /// The same sandbox with other limits for what runs in it.
    pub(super) fn within(&self, limits: Limits) -> Self {
        Self {
            limits,
            ..self.clone()
        }
    }
}

/// The memories and tables of one component. Those of Python and JavaScript have two memories and a handful of tables.
const MEMORIES: u32 = 4;
const TABLES: u32 = 20;

/// A pool for components of several modules, as built by the Python and JavaScript toolchains. It has space for the largest possible components in all slots, so that no policy takes another's share.
fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let per_component = u32::try_from(limits.instances).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(INSTANCES)
        .total_core_instances(INSTANCES * per_component)
        .total_memories(INSTANCES * MEMORIES)
        .total_tables(INSTANCES * TABLES)
        .max_core_instances_per_component(per_component)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_component_instance_size(1 << 20)
        .max_core_instance_size(1 << 20)
        .max_memories_per_module(2)
        .max_tables_per_module(10)
        .table_elements(limits.table_elements)
        .max_memory_size(limits.memory)
        .linear_memory_keep_resident(128 << 10)
        .table_keep_resident(16 << 10);
    pool
}

/// Advances the engine's epoch for as long as the engine lives. One clock serves all stores: each has a deadline of its own, counted in ticks from its start.
fn tick(engine: &Engine) -> std::io::Result<()> {
    let engine = engine.weak();
    thread::Builder::new()
        .name("policy-clock".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
            }
        })?;
    Ok(())
}

/// The places for decisions in progress.
struct Slots {
    free: Mutex<u32>,
    freed: Condvar,
}

impl Slots {
    fn new(free: u32) -> Self {
        Self {
            free: Mutex::new(free),
            freed: Condvar::new(),
        }
    }

    fn take(&self) -> Slot<'_> {
        let taken = self.freed.wait_while(lock(&self.free), |free| *free == 0);
        let mut free = unpoisoned(taken);
        *free -= 1;
        Slot(self)
    }

    fn take_free(&self) -> Option<Slot<'_>> {
        let mut free = lock(&self.free);
        *free = free.checked_sub(1)?;
        Some(Slot(self))
    }
}

/// A place among the decisions in progress, until dropped.
pub(super) struct Slot<'a>(&'a Slots);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}
