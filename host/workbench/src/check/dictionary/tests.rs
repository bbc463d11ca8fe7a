use super::*;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use crate::check::generate::{Case, Vocabulary, cases};

fn words(text: &str) -> Vec<String> {
    let found = Dictionary::of(text.as_bytes());
    [found.words, found.others].concat()
}

#[test]
fn texts_are_found_with_their_lengths_where_nothing_else_separates_them() {
    // As a Rust compiler writes them: one after the other, referred to by address and length.
    let found = words(
        r#"(module (memory 1) (data (i32.const 1024) "tenantplatinumplaté")
           (func (param i32) (result i32)
             (call $is (local.get 0) (i32.const 1024) (i32.const 6))
             (call $is (local.get 0) (i32.const 1030) (i32.const 8)) i32.or
             (call $is (local.get 0) (i32.const 1038) (i32.const 6)) i32.or
             (call $is (local.get 0) (i32.const 1024) (i32.const 4000)) i32.or)
           (func $is (param i32 i32 i32) (result i32) (i32.const 0)))"#,
    );
    for word in ["tenant", "platinum", "platé"] {
        assert!(found.iter().any(|it| it == word), "{word}: {found:?}");
    }
    // In their order: a name and its value are near each other.
    assert_eq!(found.first().map(String::as_str), Some("tenant"));
}

#[test]
fn texts_that_the_compiler_compares_as_numbers_are_put_together() {
    let number = |text: &str| {
        let bytes = text.bytes().rev();
        bytes.fold(0_u64, |number, byte| (number << 8) | u64::from(byte))
    };
    // Eleven bytes as two loads that overlap; the later one may come first.
    let (start, end) = (number("enterpri"), number("erprise!"));
    let text = format!(
        "(module (memory 1) (func (param i32) (result i64)
           (i64.xor (i64.load (i32.add (local.get 0) (i32.const 3))) (i64.const {end}))
           (i64.xor (i64.load (local.get 0)) (i64.const {start})) i64.or)
         (func (param i32) (result i32)
           (i32.xor (i32.load (local.get 0)) (i32.const {}))
           (i32.xor (i32.load8_u offset=4 (local.get 0)) (i32.const {})) i32.or))",
        number("gold"),
        number("+"),
    );
    let found = words(&text);
    assert_eq!(found, ["enterpri", "enterprise!", "gold", "gold+"]);
}

#[test]
fn literals_of_a_source_text_come_before_other_text() {
    let source =
        "if (tier === 'platinum') return \\\"it's\\\"; // don't care\\00other text\\00\\01\\02ab";
    let text = format!("(module (memory 1) (data (i32.const 8) \"{source}\"))");
    let found = words(&text);
    assert_eq!(
        found.get(..2),
        Some(&["platinum".to_owned(), "it's".to_owned()][..])
    );
    for word in ["other text", "ab"] {
        assert!(found.iter().any(|it| it == word), "{word}: {found:?}");
    }
}

#[test]
fn numbers_that_something_is_compared_with_are_found() {
    let found = Dictionary::of(
        br#"(module (func (param i32 i64) (result i32)
              (i32.add (i32.const 7) (local.get 0))
              (i32.eq (i32.const 451)) (i64.ge_u (local.get 1) (i64.const 90001)) i32.or))"#,
    );
    assert_eq!(found.numbers, [451, 90_001]);
}

#[test]
fn the_dictionary_is_limited_and_a_file_that_is_no_policy_has_none() {
    let many: String = (0..5_000).map(|it| format!("word{it}\\00")).collect();
    let text = format!("(module (memory 2) (data (i32.const 8) \"{many}\"))");
    let found = words(&text);
    assert_eq!(found.len(), WORDS);
    // What comes last is more likely the author's.
    assert_eq!(found.last().map(String::as_str), Some("word4999"));
    for file in [
        &b"\0asm\x01\0\0\0\x0a\xff\xff\xff"[..],
        b"",
        b"not wasm",
        b"\x7fELF",
    ] {
        assert!(Dictionary::of(file).is_empty());
    }
}

#[test]
fn a_word_is_soon_the_value_of_an_attribute_and_pairs_are_of_neighbours() {
    let words = (0..200).map(|it| format!("word{it}")).collect();
    let dictionary = Dictionary {
        words,
        others: vec!["other".to_owned()],
        numbers: vec![451],
    };
    let words = Vocabulary::of(&[]).with(dictionary);
    let generated: Vec<_> = cases(0, &words).take(2_000).collect();
    let has = |check: &dyn Fn(&Case) -> bool| generated.iter().any(check);
    let pairs = |case: &Case, name: &str, value: &str| {
        let pair = (name.to_owned(), value.to_owned());
        case.failure.attributes.contains(&pair)
    };
    let next = |at: usize| (format!("word{at}"), format!("word{}", at + 1));
    let found = (0..199)
        .map(next)
        .filter(|(name, value)| has(&|case| pairs(case, name, value)));
    assert!(found.count() > 190);
    let of_known = |value: &str| has(&|case| pairs(case, "tenant", value));
    assert!((0..200).filter(|at| of_known(&format!("word{at}"))).count() > 50);
    assert!(has(&|case| case.failure.error.code.starts_with("word")));
    assert!(has(&|case| case.failure.error.message.contains(" word")));
    assert!(has(&|case| case.failure.error.status == Some(451)));
    assert!(has(&|case| case.failure.attempt.get() == 452));
    assert!(has(&|case| case.body.starts_with("{\"word")));
    assert!(
        generated
            .iter()
            .all(|case| *case.failure.within_bounds() == case.failure)
    );
    // Every other failure is the one without a dictionary.
    let plain: Vec<_> = cases(0, &Vocabulary::of(&[])).take(20).collect();
    for (with, without) in generated.iter().zip(&plain).step_by(2) {
        assert_eq!(with, without);
    }
    let mut again = ChaCha8Rng::seed_from_u64(1);
    let mut case = plain.first().unwrap().clone();
    Dictionary::default().insert(&mut case, &mut again);
    assert_eq!(Some(&case), plain.first());
}
