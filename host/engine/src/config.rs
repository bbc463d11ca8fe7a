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

/// The fuel of the instructions that take long.
macro_rules! costs {
    ($($fuel:expr => $($operator:ident)+;)+) => {
        OperatorCost {
            $($($operator: $fuel,)+)+
            variable: VariableOperatorCost {
                table_copy_per_element: 10,
                table_fill_per_element: 10,
                table_init_per_element: CALL,
                table_grow_per_element: 10,
                ..VariableOperatorCost::new()
            },
            ..OperatorCost::new()
        }
    };
}

/// The fuel of each instruction: 1, and more for those that take long. So a unit of fuel takes about a nanosecond, whatever the instruction.
fn operator_cost() -> OperatorCost {
    costs! {
        CALL => RefFunc TableGet TableSet TableFill TableCopy TableInit ElemDrop;
        CALL => MemoryFill MemoryCopy MemoryInit DataDrop;
        // A request for memory, which is a call of the system.
        u8::MAX => TableGrow MemoryGrow;
        // A division or root of floating-point numbers, which is slow for the smallest numbers.
        60 => F32Div F64Div F32x4Div F64x2Div;
        60 => F32Sqrt F64Sqrt F32x4Sqrt F64x2Sqrt;
        // A sum or product of floating-point numbers, for the same reason.
        20 => F32Add F64Add F32x4Add F64x2Add;
        20 => F32Sub F64Sub F32x4Sub F64x2Sub;
        20 => F32Mul F64Mul F32x4Mul F64x2Mul;
        // Rounding a floating-point number.
        10 => F32Ceil F64Ceil F32x4Ceil F64x2Ceil;
        10 => F32Floor F64Floor F32x4Floor F64x2Floor;
        10 => F32Trunc F64Trunc F32x4Trunc F64x2Trunc;
        10 => F32Nearest F64Nearest F32x4Nearest F64x2Nearest;
        // A division of whole numbers.
        4 => I32DivS I32DivU I32RemS I32RemU;
        4 => I64DivS I64DivU I64RemS I64RemU;
    }
}
