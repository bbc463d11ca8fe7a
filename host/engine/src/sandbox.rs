//! The engine that every policy runs in: what WebAssembly it allows, where instances get their memory, and the clock that stops them.

use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::compiler::Compiler;
use crate::compiled::Compiled;
use crate::limits::Limits;

/// How often the engine's epoch moves on: the grain of [`Limits::time`].
const TICK: Duration = Duration::from_millis(10);

/// How many decisions run at once; more would only wait for a processor.
const DECISIONS: u32 = 16;

/// Instances in the pool: a decision has one for each component of its policy, at most three.
const INSTANCES: u32 = 3 * DECISIONS;

/// Where policies run: an engine, its limits, and the decisions under way.
///
/// Cheap to clone; clones share the engine. No data is shared between decisions: each has fresh instances.
#[derive(Clone)]
pub struct Sandbox {
    pub(super) engine: Engine,
    pub(super) limits: Limits,
    pub(super) compiled: Compiled,
    pub(super) compiler: Compiler,
    pooling: bool,
    slots: Arc<Slots>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("limits", &self.limits)
            .field("pooling", &self.pooling)
            .finish_non_exhaustive()
    }
}

/// There is no engine for policies on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("can't set up the sandbox: {0}")]
pub struct SandboxError(String);

impl From<wasmtime::Error> for SandboxError {
    fn from(error: wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl Sandbox {
    /// A sandbox with these limits. Instances come from a pool where the machine grants the address space for one, and are allocated one by one where not.
    pub fn new(limits: Limits) -> Result<Self, SandboxError> {
        match Engine::new(&config(Some(pool(&limits)))) {
            Ok(engine) => Self::with_engine(engine, limits, true),
            Err(refused) => {
                tracing::debug!(reason = %refused, "no pool of instances on this machine: each is allocated by itself");
                Self::on_demand(limits)
            }
        }
    }

    /// A sandbox without a pool of instances: slower, for a machine that limits address space.
    pub fn on_demand(limits: Limits) -> Result<Self, SandboxError> {
        Self::with_engine(Engine::new(&config(None))?, limits, false)
    }

    fn with_engine(engine: Engine, limits: Limits, pooling: bool) -> Result<Self, SandboxError> {
        tick(&engine)?;
        Ok(Self {
            engine,
            limits,
            compiled: Compiled::default(),
            compiler: Compiler::of_this_program(),
            pooling,
            slots: Arc::new(Slots::new(DECISIONS)),
        })
    }

    /// The same, taking policies that are compiled already from where they are.
    #[must_use]
    pub fn with_compiled(mut self, compiled: Compiled) -> Self {
        self.compiled = compiled;
        self
    }

    /// The same, having policies compiled there.
    #[must_use]
    pub fn with_compiler(mut self, compiler: Compiler) -> Self {
        self.compiler = compiler;
        self
    }

    /// The same, with at most so many decisions at once, from 1; more than the pool has places for change nothing.
    #[must_use]
    pub fn deciding_at_once(mut self, decisions: u32) -> Self {
        self.slots = Arc::new(Slots::new(decisions.clamp(1, DECISIONS)));
        self
    }

    /// Where policies that are compiled already are.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// What each policy may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Tells whether two sandboxes compile a file in the same way: everything that this depends on, the limits of compiling included.
    pub fn compilation(&self) -> impl Hash {
        (
            self.engine.precompile_compatibility_hash(),
            self.limits.compile,
        )
    }

    /// How many ticks of the engine's epoch a decision may last.
    pub(super) fn ticks(&self) -> u64 {
        let ticks = self.limits.time.as_millis().div_ceil(TICK.as_millis());
        u64::try_from(ticks).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Waits for a place among the decisions under way, so that the pool never runs dry.
    pub(super) fn slot(&self) -> Slot<'_> {
        self.slots.take()
    }
}

/// Threads are left out of the build. What is not listed here is wasmtime's default of the pinned version; what could widen the sandbox or differ between machines is pinned.
pub(crate) fn config(pool: Option<PoolingAllocationConfig>) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .cranelift_nan_canonicalization(true)
        .memory_init_cow(true);
    if let Some(pool) = pool {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

/// Memories and tables of one component; Python's and JavaScript's have two and a handful.
const MEMORIES: u32 = 4;
const TABLES: u32 = 20;

/// Room for components of several modules, as the Python and JavaScript toolchains build them; and for as many of the largest as there may be at once, so that no policy takes another's.
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

/// Moves the engine's epoch on for as long as the engine lives. One clock for all: each store has a deadline of its own, counted in ticks from its start.
fn tick(engine: &Engine) -> wasmtime::Result<()> {
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

/// The places for decisions under way.
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
        let mut free = self
            .freed
            .wait_while(
                self.free.lock().unwrap_or_else(PoisonError::into_inner),
                |free| *free == 0,
            )
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Slot(self)
    }
}

/// A place among the decisions under way, until dropped.
pub(super) struct Slot<'a>(&'a Slots);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
