//! The WebAssembly features that the engine allows, the same for compiling and for running.

use wasmtime::{
    Config, InstanceAllocationStrategy, OperatorCost, PoolingAllocationConfig, VariableOperatorCost,
};

/// The configuration of the engine. Threads are not part of the build. Options that are not listed have the defaults of the pinned version of wasmtime; those that could widen the sandbox or differ between machines are listed.
pub(crate) fn config(pool: Option<PoolingAllocationConfig>) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(operator_cost())
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

/// The fuel of a call into the engine, which takes a hundred times as long as an ordinary instruction.
const CALL: u8 = 120;

/// The fuel of a request for memory, which is a call of the system.
const GROW: u8 = u8::MAX;

/// The fuel of a division or root of floating-point numbers, which is slow for the smallest numbers.
const DIVISION: u8 = 60;

/// The fuel of a sum or product of floating-point numbers, for the same reason.
const ARITHMETIC: u8 = 20;

/// The fuel of rounding a floating-point number.
const ROUNDING: u8 = 10;

/// The fuel of a division of whole numbers.
const WHOLE_DIVISION: u8 = 4;

/// The fuel of each instruction: 1, and more for those that take long. So a unit of fuel takes about a nanosecond, whatever the instruction.
fn operator_cost() -> OperatorCost {
    OperatorCost {
        RefFunc: CALL,
        TableGet: CALL,
        TableSet: CALL,
        TableFill: CALL,
        TableCopy: CALL,
        TableInit: CALL,
        ElemDrop: CALL,
        TableGrow: GROW,
        MemoryGrow: GROW,
        MemoryFill: CALL,
        MemoryCopy: CALL,
        MemoryInit: CALL,
        DataDrop: CALL,
        F32Div: DIVISION,
        F64Div: DIVISION,
        F32x4Div: DIVISION,
        F64x2Div: DIVISION,
        F32Sqrt: DIVISION,
        F64Sqrt: DIVISION,
        F32x4Sqrt: DIVISION,
        F64x2Sqrt: DIVISION,
        F32Add: ARITHMETIC,
        F64Add: ARITHMETIC,
        F32x4Add: ARITHMETIC,
        F64x2Add: ARITHMETIC,
        F32Sub: ARITHMETIC,
        F64Sub: ARITHMETIC,
        F32x4Sub: ARITHMETIC,
        F64x2Sub: ARITHMETIC,
        F32Mul: ARITHMETIC,
        F64Mul: ARITHMETIC,
        F32x4Mul: ARITHMETIC,
        F64x2Mul: ARITHMETIC,
        F32Ceil: ROUNDING,
        F64Ceil: ROUNDING,
        F32x4Ceil: ROUNDING,
        F64x2Ceil: ROUNDING,
        F32Floor: ROUNDING,
        F64Floor: ROUNDING,
        F32x4Floor: ROUNDING,
        F64x2Floor: ROUNDING,
        F32Trunc: ROUNDING,
        F64Trunc: ROUNDING,
        F32x4Trunc: ROUNDING,
        F64x2Trunc: ROUNDING,
        F32Nearest: ROUNDING,
        F64Nearest: ROUNDING,
        F32x4Nearest: ROUNDING,
        F64x2Nearest: ROUNDING,
        I32DivS: WHOLE_DIVISION,
        I32DivU: WHOLE_DIVISION,
        I32RemS: WHOLE_DIVISION,
        I32RemU: WHOLE_DIVISION,
        I64DivS: WHOLE_DIVISION,
        I64DivU: WHOLE_DIVISION,
        I64RemS: WHOLE_DIVISION,
        I64RemU: WHOLE_DIVISION,
        variable: VariableOperatorCost {
            table_copy_per_element: 10,
            table_fill_per_element: 10,
            table_init_per_element: CALL,
            table_grow_per_element: 10,
            ..VariableOperatorCost::new()
        },
        ..OperatorCost::new()
    }
}
