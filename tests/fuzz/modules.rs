//! Modules that wasm-smith makes of an input, with the exports of a policy.

use std::sync::LazyLock;

use arbitrary::Unstructured;
use backstop_engine::Sandbox;
use wasm_smith::{Config, Module};

use crate::policies::{ON_DEMAND, Outcome, evaluate, limits, load};

static POOLING: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(limits()).unwrap());

/// The functions of a policy's core module, by their types.
static EXPORTS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    wat::parse_str(
        r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export "backstop:policy/classifier@0.1.0#classify") (param i32) (result i32) (i32.const 64))
        (func (export "backstop:policy/backoff@0.1.0#delay") (param i32) (result i32) (i32.const 0)))"#,
    )
    .unwrap()
});

/// A module of the features that policies may use, and of some that they may not.
fn module(input: &[u8]) -> Option<Vec<u8>> {
    let (choice, rest) = input.split_first()?;
    let config = Config {
        exports: Some(EXPORTS.clone()),
        max_imports: 0,
        max_memories: 2,
        max_memory32_bytes: 4 << 20,
        max_tables: 3,
        max_table_elements: 1_000,
        disallow_traps: choice & 1 == 0,
        bulk_memory_enabled: true,
        reference_types_enabled: true,
        simd_enabled: choice & 2 == 0,
        relaxed_simd_enabled: choice & 0x40 != 0,
        tail_call_enabled: true,
        multi_value_enabled: true,
        exceptions_enabled: choice & 0x80 != 0,
        gc_enabled: false,
        memory64_enabled: choice & 0x20 != 0,
        threads_enabled: false,
        allow_start_export: true,
        max_instructions: 200,
        ..Config::default()
    };
    let mut module = Module::new(config, &mut Unstructured::new(rest)).ok()?;
    if choice & 4 == 0 {
        let _ = module.ensure_termination(200_000);
    }
    Some(module.to_bytes())
}

/// A module decides the same with either allocator, and again in memory that another instance has used.
pub(crate) fn allocators(input: &[u8]) {
    let Some(file) = module(input) else {
        return;
    };
    let (on_demand, pooling) = (load(&ON_DEMAND, &file), load(&POOLING, &file));
    let (on_demand, pooling) = match (on_demand, pooling) {
        (Ok(on_demand), Ok(pooling)) => (on_demand, pooling),
        (Err(one), Err(other)) => return assert_eq!(one.to_string(), other.to_string()),
        (one, other) => panic!("{one:?} on demand, {other:?} in the pool"),
    };
    let expected = evaluate(&ON_DEMAND, on_demand);
    for _ in 0..2 {
        let found = evaluate(&POOLING, pooling.clone());
        for (expected, found) in expected.iter().zip(&found) {
            let timed_out = |it: &Outcome| {
                it.answer
                    .as_ref()
                    .is_err_and(|it| it.contains("was stopped after"))
            };
            assert!(
                expected == found || timed_out(expected) || timed_out(found),
                "{expected:?} on demand, {found:?} in the pool"
            );
        }
    }
}
