//! Counts the body of one function, instruction by instruction.

use wasmparser::{
    FuncToValidate, FuncValidatorAllocations, FunctionBody, Operator, ValidatorResources,
};

use super::measure::{LARGE, Measure, Shape, ShapeError};

/// Counts and validates one function.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other instructions start and end no block"
)]
pub(super) fn count(
    shape: &mut Shape,
    allocations: &mut FuncValidatorAllocations,
    function: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'_>,
) -> Result<(), ShapeError> {
    let range = body.range();
    let (start, size) = (range.start, range.end.saturating_sub(range.start));
    shape.raise(Measure::FunctionCode, size, start)?;
    shape.add(Measure::Code, size, start)?;
    if size > LARGE {
        shape.add(Measure::LargeCode, size, start)?;
    }

    let mut validator = function.into_validator(std::mem::take(allocations));
    let mut declared = body.get_locals_reader()?;
    for _ in 0..declared.get_count() {
        let offset = declared.original_position();
        let (count, ty) = declared.read()?;
        let locals = u64::from(validator.len_locals()) + u64::from(count);
        shape.raise(Measure::FunctionLocals, locals, start)?;
        validator.define_locals(offset, count, ty)?;
    }
    let locals = u64::from(validator.len_locals());
    shape.raise(Measure::FunctionLocals, locals, start)?;
    shape.add(Measure::Locals, locals, start)?;

    let (mut branches, mut live, mut heavy, mut calls) = (0_u64, 0_u64, 0_u64, 0_u64);
    // The open blocks, 1 for each loop and 0 for any other, and the number of loops.
    let (mut blocks, mut loops) = (Vec::new(), 0_u64);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let (operator, offset) = operators.read_with_offset()?;
        let values = 1 + locals + u64::from(validator.operand_stack_height());
        let more = branches_of(&operator);
        branches = branches.saturating_add(more);
        shape.raise(Measure::FunctionBranches, branches, start)?;
        live = live.saturating_add(values.saturating_mul(more));
        shape.raise(Measure::FunctionLive, live, start)?;
        heavy += u64::from(is_heavy(body, offset));
        calls += u64::from(is_call(&operator));
        shape.raise(Measure::FunctionCalls, calls, start)?;
        match operator {
            Operator::Block { .. } | Operator::If { .. } => blocks.push(0),
            Operator::Loop { .. } => {
                blocks.push(1);
                loops += 1;
            }
            // The last end is that of the function.
            Operator::End => loops -= blocks.pop().unwrap_or(0),
            _ => {}
        }
        shape.raise(Measure::FunctionLoops, loops, start)?;
        shape.raise(Measure::FunctionDepth, blocks.len() as u64, start)?;
        validator.op(offset, &operator)?;
    }
    operators.finish()?;
    shape.add(Measure::Heavy, heavy, start)?;
    shape.add(Measure::Calls, calls, start)?;
    shape.add(Measure::Branches, branches, start)?;
    shape.add(Measure::Live, live, start)?;
    *allocations = validator.into_allocations();
    Ok(())
}

fn is_call(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Call { .. }
            | Operator::CallIndirect { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
    )
}

/// The branches of a call through a table: the engine checks whether the function is initialised, and its type.
const INDIRECT: u64 = 8;

/// The number of places at which an instruction splits or joins the control flow.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other instructions are passed straight through"
)]
fn branches_of(operator: &Operator<'_>) -> u64 {
    match operator {
        Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::If { .. }
        | Operator::Else
        | Operator::End
        | Operator::Br { .. }
        | Operator::BrIf { .. } => 1,
        Operator::BrTable { targets } => u64::from(targets.len()) + 1,
        Operator::CallIndirect { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::TableGet { .. }
        | Operator::TableSet { .. } => INDIRECT,
        _ => 0,
    }
}

/// Whether an instruction compiles to many machine instructions, by its first byte: floating-point arithmetic, checked conversions, vectors, and instructions that call the engine.
fn is_heavy(body: &FunctionBody<'_>, offset: u64) -> bool {
    let at = usize::try_from(offset.saturating_sub(body.range().start)).ok();
    let opcode = at.and_then(|at| body.as_bytes().get(at));
    matches!(
        opcode,
        Some(0x40 | 0xd2 | 0x8b..=0xa6 | 0xa8..=0xab | 0xae..=0xbb | 0xfc | 0xfd)
    )
}
