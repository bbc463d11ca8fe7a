//! A policy's file: from the bytes that somebody wrote to a component that decides.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backstop_core::{examples, settings::Settings};
use backstop_engine::answer::{self, Answer};
use backstop_engine::{
    Component, ComponentError, Limits, Measure, Part, Payload, Policy, Sandbox, Shape, encode,
    sections as of_file,
};
use wasmparser::{Validator, WasmFeatures};

use crate::assert_readable;
use crate::battery::processor_time;
use crate::heavy;

/// Limits with which no input takes long.
pub(crate) fn limits() -> Limits {
    Limits {
        fuel: 1_000_000,
        component: 1 << 20,
        ..Limits::default()
    }
}

pub(crate) static ON_DEMAND: LazyLock<Sandbox> =
    LazyLock::new(|| Sandbox::on_demand(limits()).unwrap());

/// A file is refused, or it becomes a valid component, which is one already; and it can be loaded and evaluated or is refused.
pub(crate) fn component(input: &[u8]) {
    let bytes = match encode(input, limits().component) {
        Ok(bytes) => bytes,
        Err(refused) => return assert_readable(&refused.to_string()),
    };
    assert_is_valid(&bytes);
    let encode = |file: &[u8]| encode(file, usize::MAX).expect("what the compiler gets is one");
    // The encoder of modules adds sections about itself.
    let again = encode(&bytes);
    assert!(
        encode(&again) == again,
        "encoded twice, it is another component"
    );
    let is_component = input.get(..8) == bytes.get(..8);
    assert!(!is_component || again == bytes);
    if let Ok(component) = load(&ON_DEMAND, input) {
        assert!(component.exports().next().is_some());
        evaluate(&ON_DEMAND, component);
    }
}

/// The policy of a file, as a host loads it.
pub(crate) fn load(sandbox: &Sandbox, file: &[u8]) -> Result<Arc<Component>, ComponentError> {
    let loaded = Component::load(sandbox, "fuzzed", file);
    if let Err(refused) = &loaded {
        assert_readable(&refused.to_string());
    }
    loaded
}

/// One decision about each of the failures of the probe. No answer is invalid without an error.
pub(crate) fn evaluate(sandbox: &Sandbox, component: Arc<Component>) -> Vec<Outcome> {
    let part = Part {
        component,
        settings: Settings::new(),
    };
    let policy = Policy::single(sandbox, part);
    let payload = Arc::new(Payload::new(r#"{"order": {"id": 7}}"#));
    let failures = examples::failures();
    let evaluated = failures.iter().take(2).map(|failure| {
        let evaluation = policy.evaluate(failure, &payload);
        let answer = evaluation.answer.map(|answer| {
            answer
                .clone()
                .validate()
                .expect("an accepted answer is valid");
            format!("{answer:?}")
        });
        Outcome {
            answer: answer.map_err(|error| error.to_string()),
            fuel: evaluation.fuel,
        }
    });
    evaluated.collect()
}

/// What a decision was and cost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answer: Result<String, String>,
    pub(crate) fuel: u64,
}

fn assert_is_valid(bytes: &[u8]) {
    let valid = Validator::new_with_features(WasmFeatures::all()).validate_all(bytes);
    if let Err(error) = valid {
        panic!("it is not valid: {error}");
    }
}

/// The most processor time and the most memory of compiling a file without anything in it, in this build.
const LEAST_TIME: Duration = Duration::from_secs(2);

/// The shape of a file, or of a policy that is [made](heavy) of the input, bounds what compiling it costs: it takes the share of the compiler's limits that its measures have of theirs, and what the compiler gets has no larger shape than the file.
pub(crate) fn compile_cost(input: &[u8]) {
    let made = heavy::policy(input);
    let is_file = input.starts_with(b"\0asm") || input.starts_with(b"(");
    let input = made.as_deref().filter(|_| !is_file).unwrap_or(input);
    let Ok(bytes) = encode(input, limits().component) else {
        return;
    };
    let shape = Shape::of(&bytes).expect("what the compiler gets is within the limits");
    if bytes.get(4..8) == input.get(4..8) {
        let of_file = Shape::of(input).unwrap();
        for measure in Measure::ALL {
            assert!(
                shape.get(measure) <= of_file.get(measure),
                "{}",
                measure.title()
            );
        }
    }
    let share: f64 = Measure::ALL.into_iter().map(|it| share(&shape, it)).sum();
    let before = processor_time();
    let _ = load(&ON_DEMAND, input);
    let took = processor_time().saturating_sub(before);
    let most = LEAST_TIME + limits().compile.cpu.mul_f64(share);
    assert!(
        took <= most,
        "{took:?} of processor time, and {most:?} by its shape: {shape:?}"
    );
}

/// The share that a file has of a limit.
fn share(shape: &Shape, measure: Measure) -> f64 {
    let number = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    number(shape.get(measure)) / number(measure.limit())
}

/// Without its custom sections, a valid file is valid, has the same shape and interfaces, and has no more to lose.
pub(crate) fn sections(input: &[u8]) {
    let assembled = wat::parse_bytes(input);
    let input = assembled.as_deref().unwrap_or(input);
    let Ok(shape) = Shape::of(input) else {
        let _ = (
            of_file::without(input, |_| true),
            of_file::interfaces(input),
        );
        return;
    };
    for kept in ["", "name"] {
        let is_dropped = |name: &str| name != kept;
        let left = of_file::without(input, is_dropped).expect("a valid file has sections");
        assert!(left.len() <= input.len());
        assert_is_valid(&left);
        assert_eq!(Shape::of(&left).unwrap(), shape);
        assert_eq!(of_file::without(&left, is_dropped).unwrap(), left);
        let names = |file: &[u8]| {
            let (imports, exports) = of_file::interfaces(file).unwrap();
            let imports = imports.iter().map(|it| it.name.name.to_owned());
            let exports = exports.iter().map(|it| it.name.name.to_owned());
            imports.chain(exports).collect::<Vec<_>>()
        };
        assert_eq!(names(&left), names(input));
    }
}

/// An answer of the child is read as it was written, and never as more than was written.
pub(crate) fn compiler_answer(input: &[u8]) {
    let size = input.len();
    if let Some(answered) = answer::read(input.to_vec()) {
        match &answered {
            Ok(code) => assert!(input.ends_with(code) && code.len() < size),
            Err(Answer::Code(_)) => panic!("code is no reason"),
            Err(Answer::Refused(why) | Answer::Unable(why)) => assert!(why.len() <= size),
            Err(Answer::OutOfMemory) => {}
        }
        let mut written = Vec::new();
        answer::write(&mut written, &answered).unwrap();
        assert_eq!(answer::read(written), Some(answered));
    }
    // As the child's code.
    let mut written = Vec::new();
    answer::write(&mut written, &Ok(input.to_vec())).unwrap();
    assert_eq!(answer::read(written.clone()), Some(Ok(input.to_vec())));
    written.push(b' ');
    assert_eq!(answer::read(written), None);
}
