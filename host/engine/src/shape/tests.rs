use std::fmt::Write;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ElementSection, Elements, Function, FunctionSection,
    GlobalSection, GlobalType, Instruction, Module, RefType, TypeSection, ValType,
};

use super::*;
use crate::builtin;

/// The measure whose limit a file exceeds.
fn too_many(binary: &[u8]) -> Measure {
    match Shape::of(binary) {
        Err(ShapeError::TooMany { measure, .. }) => measure,
        other => panic!("{other:?}"),
    }
}

fn binary(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A module of functions without parameters and results.
fn functions(bodies: impl IntoIterator<Item = Function>) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let (mut declared, mut code) = (FunctionSection::new(), CodeSection::new());
    for body in bodies {
        declared.function(0);
        code.function(&body);
    }
    let mut module = Module::new();
    module.section(&types).section(&declared).section(&code);
    module.finish()
}

fn function(locals: u32, instructions: impl IntoIterator<Item = Instruction<'static>>) -> Function {
    let mut function = Function::new([(locals, ValType::I32)]);
    for instruction in instructions {
        function.instruction(&instruction);
    }
    function.instruction(&Instruction::End);
    function
}

/// Loops within loops, of which the innermost reads and writes every local.
fn nested_loops(depth: usize, locals: u32) -> Vec<u8> {
    let before = std::iter::repeat_n(Instruction::Loop(BlockType::Empty), depth);
    let inside = (0..locals).flat_map(|local| {
        [
            Instruction::LocalGet(local),
            Instruction::LocalSet((local + 1) % locals),
        ]
    });
    let after = std::iter::repeat_n(Instruction::End, depth);
    functions([function(locals, before.chain(inside).chain(after))])
}

#[test]
fn the_policies_of_this_repository_are_far_below_every_limit() {
    for name in builtin::names() {
        let shape = Shape::of(builtin::bytes(name).unwrap()).unwrap();
        assert!(shape.get(Measure::Functions) > 100);
        for measure in Measure::ALL {
            let (count, limit) = (shape.get(measure), measure.limit());
            assert!(count <= limit / 4, "{name}: {count} {}", measure.title());
        }
    }
}

#[test]
fn calls_are_counted_in_each_function_and_in_all() {
    let calls = |count| function(0, std::iter::repeat_n(Instruction::Call(0), count));
    let shape = Shape::of(&functions([calls(3), calls(2)])).unwrap();
    assert_eq!(shape.get(Measure::Calls), 5);
    assert_eq!(shape.get(Measure::FunctionCalls), 3);
    // 655 KB of them took 4 s and 869 MiB.
    let one = too_many(&functions([calls(300_000)]));
    assert_eq!(one, Measure::FunctionCalls);
    let many = too_many(&functions((0..50).map(|_| calls(5_000))));
    assert_eq!(many, Measure::Calls);
}

#[test]
fn counts_are_exact() {
    let shape = Shape::of(&binary(
        "(component
          (type $pair (tuple u8 (list string)))
          (component $inner (core module (func (param i32 i64) (local f32) (block (loop (br 1))))))
          (instance (instantiate $inner))
          (core module
            (import \"a\" \"bcd\" (func))
            (memory (export \"memory\") 1)
            (data (i32.const 0) \"x\")
            (global i32 (i32.add (i32.const 1) (i32.const 2)))
            (table 3 funcref)
            (elem func 0 0)
            (elem funcref (ref.null func))))",
    ))
    .unwrap();
    for (measure, count) in [
        (Measure::Modules, 2),
        (Measure::Components, 1),
        (Measure::Nesting, 1),
        // The tuple, and in it the byte, the list and its strings.
        (Measure::TypeParts, 4),
        (Measure::Parameters, 2),
        (Measure::Imports, 1),
        (Measure::Exports, 1),
        (Measure::Name, 6),
        (Measure::TableElements, 3),
        (Measure::ElementSegments, 2),
        (Measure::Elements, 3),
        (Measure::Functions, 1),
        (Measure::FunctionLocals, 3),
        (Measure::FunctionDepth, 2),
        (Measure::FunctionLoops, 1),
        (Measure::Branches, 6),
        // A block, a loop, a branch and three ends, each with three locals and itself.
        (Measure::FunctionLive, 24),
        (Measure::Live, 24),
    ] {
        assert_eq!(shape.get(measure), count, "{}", measure.title());
    }
}

#[test]
fn code_that_compiles_for_minutes_is_refused() {
    let loops = nested_loops(1_000, 900);
    assert!(loops.len() < 10 << 10);
    assert_eq!(too_many(&loops), Measure::FunctionLoops);
    assert_eq!(too_many(&nested_loops(10, 5_000)), Measure::FunctionLocals);
    let blocks = std::iter::repeat_n(Instruction::Block(BlockType::Empty), 2_000)
        .chain(std::iter::repeat_n(Instruction::End, 2_000));
    let blocks = functions([function(0, blocks)]);
    assert_eq!(too_many(&blocks), Measure::FunctionDepth);
    let table = |targets| {
        let targets = Instruction::BrTable(vec![0; targets].into(), 0);
        function(400, [Instruction::I32Const(0), targets])
    };
    assert_eq!(too_many(&functions([table(10_000)])), Measure::FunctionLive);
    // Each is within the limit, but there are too many.
    let many = functions((0..200).map(|_| table(500)));
    assert_eq!(too_many(&many), Measure::Live);
    // Operands count like locals: a thousand wait on the stack while blocks start and end.
    let waiting = std::iter::repeat_n(Instruction::I32Const(1), 1_000)
        .chain((0..400).flat_map(|_| [Instruction::Block(BlockType::Empty), Instruction::End]))
        .chain(std::iter::repeat_n(Instruction::Drop, 1_000));
    assert_eq!(
        too_many(&functions([function(0, waiting)])),
        Measure::FunctionLive
    );
}

#[test]
fn more_functions_code_and_locals_than_any_toolchain_generates_are_refused() {
    let empty = || function(0, []);
    assert_eq!(
        too_many(&functions((0..60_000).map(|_| empty()))),
        Measure::Functions
    );
    let drops = [Instruction::I32Const(1), Instruction::Drop];
    let long = || function(0, drops.iter().cycle().take(30_000).cloned());
    assert_eq!(
        too_many(&functions((0..400).map(|_| long()))),
        Measure::Code
    );
    let longer = function(0, drops.iter().cycle().take(1 << 20).cloned());
    assert_eq!(too_many(&functions([longer])), Measure::FunctionCode);
    let roomy = functions((0..1_000).map(|_| function(1_000, [])));
    assert_eq!(too_many(&roomy), Measure::Locals);
}

#[test]
fn ten_megabytes_of_additions_in_large_functions_are_refused_before_they_are_compiled() {
    let sums = [Instruction::I32Const(1), Instruction::I32Add];
    let sum = |count: usize| {
        let sums = sums.iter().cycle().take(2 * count).cloned();
        let all = std::iter::once(Instruction::I32Const(0)).chain(sums);
        function(0, all.chain([Instruction::Drop]))
    };
    // Compiling them took 16 s and 2 GiB, until the limit of memory ended it.
    let large = || sum(190_000);
    let file = functions((0..18).map(|_| large()));
    assert!(file.len() > 10_000_000);
    assert_eq!(too_many(&file), Measure::LargeCode);
    // As many bytes as the largest policy in Python has twice.
    let shape = Shape::of(&functions((0..2).map(|_| large()))).unwrap();
    assert_eq!(shape.get(Measure::LargeCode), shape.get(Measure::Code));
    // In smaller functions they are no more than their bytes.
    let shape = Shape::of(&functions((0..150).map(|_| sum(21_000)))).unwrap();
    assert_eq!(shape.get(Measure::LargeCode), 0);
}

#[test]
fn instructions_that_compile_to_many_are_counted() {
    let sums = [
        Instruction::F32Const(1.0.into()),
        Instruction::F32Sqrt,
        Instruction::Drop,
    ];
    let some = || function(0, sums.iter().cycle().take(3 * 50_000).cloned());
    assert_eq!(
        too_many(&functions((0..10).map(|_| some()))),
        Measure::Heavy
    );
    let shape = Shape::of(&functions([some()])).unwrap();
    assert_eq!(shape.get(Measure::Heavy), 50_000);
}

#[test]
fn signatures_through_which_a_short_call_moves_a_thousand_values_are_refused() {
    let results = format!("(module (type (func (result {}))))", "i32 ".repeat(1_000));
    assert_eq!(too_many(&binary(&results)), Measure::Results);
    let parameters = format!("(module (type (func (param {}))))", "i32 ".repeat(1_000));
    assert_eq!(too_many(&binary(&parameters)), Measure::Parameters);
}

#[test]
fn segments_that_fill_the_memory_of_the_host_are_refused() {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let (mut declared, mut code) = (FunctionSection::new(), CodeSection::new());
    declared.function(0);
    code.function(&function(0, []));
    let with = |elements: &ElementSection| {
        let mut module = Module::new();
        module.section(&types).section(&declared);
        module.section(elements).section(&code);
        module.finish()
    };
    let mut functions = ElementSection::new();
    functions.passive(Elements::Functions(vec![0; 1 << 20].into()));
    assert_eq!(too_many(&with(&functions)), Measure::Elements);
    let mut expressions = ElementSection::new();
    let items = vec![ConstExpr::ref_func(0); 1 << 20];
    expressions.passive(Elements::Expressions(RefType::FUNCREF, items.into()));
    assert_eq!(too_many(&with(&expressions)), Measure::Elements);
    let mut empty = ElementSection::new();
    for _ in 0..10_000 {
        empty.passive(Elements::Functions([].as_slice().into()));
    }
    assert_eq!(too_many(&with(&empty)), Measure::ElementSegments);

    let ty = GlobalType {
        val_type: ValType::I32,
        mutable: false,
        shared: false,
    };
    let mut globals = GlobalSection::new();
    let sum = (0..200_000).fold(ConstExpr::i32_const(1), |sum, _| {
        sum.with_i32_const(1).with_i32_add()
    });
    globals.global(ty, &sum);
    let mut module = Module::new();
    module.section(&globals);
    assert_eq!(too_many(&module.finish()), Measure::ConstantInstructions);

    let table = binary("(module (table 10000000 funcref))");
    assert_eq!(too_many(&table), Measure::TableElements);
    let data = format!("(module (memory 1) {})", "(data \"\")".repeat(200_000));
    assert_eq!(too_many(&binary(&data)), Measure::DataSegments);
}

#[test]
fn types_and_components_that_double_with_every_line_are_refused() {
    let mut types = "(component (type $t0 (tuple u8 u8))".to_owned();
    let mut components = "(component (component $c0 (core module))".to_owned();
    let mut instances =
        "(component (type $t0 (tuple u8 u8)) (import \"i\" (instance $i0 (export \"f\" (func))))"
            .to_owned();
    for level in 1..30 {
        let inner = level - 1;
        write!(types, "(type $t{level} (tuple $t{inner} $t{inner}))").unwrap();
        write!(
            components,
            "(component $c{level} (alias outer 1 $c{inner} (component $c)) (instance (instantiate $c)) (instance (instantiate $c)))"
        )
        .unwrap();
        write!(
            instances,
            "(instance $i{level} (export \"a\" (instance $i{inner})) (export \"b\" (instance $i{inner})))"
        )
        .unwrap();
    }
    for (text, measure) in [
        (types, Measure::TypeParts),
        (components, Measure::ExpandedParts),
        (instances, Measure::TypeParts),
    ] {
        // In one section, wasmparser's own limit of a million may apply first.
        let shape = Shape::of(&binary(&format!("{text})")));
        let refused = shape.unwrap_err();
        let is_expected = match &refused {
            ShapeError::TooMany { measure: found, .. } => *found == measure,
            ShapeError::Invalid(reason) => reason.contains("effective type size"),
            ShapeError::GivenComponent { .. } => false,
        };
        assert!(is_expected, "{refused}");
    }
}

#[test]
fn components_have_a_low_nesting_limit_and_import_no_components() {
    let nested = format!("{}{}", "(component ".repeat(50), ")".repeat(50));
    assert_eq!(too_many(&binary(&nested)), Measure::Nesting);
    let many = format!("(component {})", "(component)".repeat(500));
    assert_eq!(too_many(&binary(&many)), Measure::Components);
    let modules = format!("(component {})", "(core module)".repeat(500));
    assert_eq!(too_many(&binary(&modules)), Measure::Modules);
    for given in [
        "(component (import \"c\" (component)))",
        "(component (import \"i\" (instance (export \"c\" (component)))) (alias export 0 \"c\" (component)))",
    ] {
        let refused = Shape::of(&binary(given)).unwrap_err();
        assert!(
            matches!(refused, ShapeError::GivenComponent { .. }),
            "{refused}"
        );
    }
}

#[test]
fn a_refusal_names_the_measure_the_count_and_the_limit() {
    let refused = Shape::of(&nested_loops(3, 3_000)).unwrap_err();
    let expected = format!(
        "it has 3000 locals in one function, more than the limit of {} (at byte",
        Measure::FunctionLocals.limit()
    );
    assert!(refused.to_string().starts_with(&expected), "{refused}");
}

#[test]
fn invalid_files_are_refused_before_they_are_compiled() {
    for text in [
        "(module (func (drop)))",
        "(module (func (result i32)))",
        "(module (memory i64 1))",
        "(component (alias outer 0 9 (type)))",
    ] {
        // Text is assembled even if it is invalid.
        let refused = Shape::of(&binary(text)).unwrap_err();
        assert!(matches!(refused, ShapeError::Invalid(_)), "{refused}");
    }
    let complete = builtin::bytes("linear").unwrap();
    for length in (0..complete.len()).step_by(997) {
        assert!(Shape::of(&complete[..length]).is_err(), "{length}");
    }
}
