//! The WebAssembly features that the engine allows, the same for compiling and for running.

use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

/// The configuration of the engine. Threads are not part of the build. Options that are not listed have the defaults of the pinned version of wasmtime; those that could widen the sandbox or differ between machines are listed.
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
