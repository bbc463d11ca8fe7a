//! Policies that try to break out of the sandbox, or to hang, exhaust or confuse the host. Every decision ends within its limits, and the host continues.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::{Action, ErrorClass, InvalidAnswer};
use backstop_core::failure::{Failure, Milliseconds};
use backstop_core::settings::Settings;
use backstop_engine::{
    Component, ComponentError, EncodingError, Evaluation, EvaluationError, Limits, Part, Parts,
    Payload, Phase, Policy, Sandbox,
};
use backstop_tests::documents::top;
use backstop_tests::policies::{Rule, waits};
use backstop_versions::{LivePolicy, PolicySpec, Source};

fn sandbox() -> Sandbox {
    Sandbox::new(Limits {
        time: Duration::from_secs(2),
        ..Limits::default()
    })
    .unwrap()
}

fn failure() -> Failure {
    backstop_tests::failure("HTTP 503")
}

fn load(sandbox: &Sandbox, file: &[u8]) -> Result<Policy, ComponentError> {
    let component = Component::load(sandbox, "test", file)?;
    Ok(Policy::single(
        sandbox,
        Part {
            component,
            settings: Settings::new(),
        },
    ))
}

fn evaluate_text(sandbox: &Sandbox, text: &str) -> Evaluation {
    let policy = load(sandbox, text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    policy.evaluate(&failure(), &Arc::new(Payload::new(r#"{"tenant": "t-1"}"#)))
}

fn evaluate_rule(sandbox: &Sandbox, rule: Rule<'_>) -> Evaluation {
    evaluate_text(sandbox, &rule.text())
}

fn assert_still_works(sandbox: &Sandbox) {
    let evaluation = evaluate_text(sandbox, &waits(1_234));
    assert_eq!(
        evaluation.answer.unwrap().action,
        Action::Retry {
            delay: Milliseconds(1_234)
        }
    );
}

#[test]
fn an_endless_loop_runs_out_of_fuel_wherever_it_is() {
    let sandbox = sandbox();
    let forever = Some(Rule::LOOP);
    for (rule, phase) in [
        (
            Rule {
                start: "(loop $l (br $l))",
                delay: Some("(i32.const 1)"),
                ..Rule::default()
            },
            Phase::Start,
        ),
        (
            Rule {
                configure: forever,
                delay: Some("(i32.const 1)"),
                ..Rule::default()
            },
            Phase::Configure,
        ),
        (
            Rule {
                classify: forever,
                ..Rule::default()
            },
            Phase::Classify,
        ),
        (
            Rule {
                judge: forever,
                ..Rule::default()
            },
            Phase::Judge,
        ),
        (
            Rule {
                delay: forever,
                ..Rule::default()
            },
            Phase::Delay,
        ),
    ] {
        let evaluation = evaluate_rule(&sandbox, rule);
        assert_eq!(
            evaluation.answer,
            Err(EvaluationError::OutOfFuel(50_000_000, phase))
        );
        assert_eq!(evaluation.fuel, 50_000_000);
        assert_still_works(&sandbox);
    }
}

#[test]
fn an_expensive_instruction_costs_much_fuel() {
    let sandbox = sandbox();
    // Filling 12 MB is one instruction: counted as one, fifty million units of fuel would last for hours.
    let fill = "(loop $l (memory.fill (i32.const 100000) (i32.const 1) (i32.const 12000000)) (br $l)) (unreachable)";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(fill),
            ..Rule::default()
        },
    );
    assert_eq!(
        evaluation.answer,
        Err(EvaluationError::OutOfFuel(50_000_000, Phase::Delay))
    );
    assert_still_works(&sandbox);
}

/// Otherwise a policy within its fuel could keep a processor for seconds. Compared with ordinary instructions on the same thread, since machines differ; what an instruction that calls the host takes differs more, with what else the machine does.
#[test]
fn no_instruction_takes_much_longer_than_its_fuel() {
    let sandbox = Sandbox::new(Limits {
        time: Duration::from_secs(120),
        ..Limits::default()
    })
    .unwrap();
    let takes = |body: &str| {
        let bodies = format!("{body} ").repeat(50);
        let text = Rule {
            delay: Some("(call $spend)"),
            ..Rule::default()
        }
        .text();
        let end = text.rfind(')').unwrap();
        let spend = format!(
            "(table $t 100 1000 funcref) (elem declare func $spend) (elem $e func $spend $spend) (data $d \"abc\")
            (global $g (mut i32) (i32.const 0)) (global $f (mut f64) (f64.const 1.5))
            (func $spend (result i32) (loop $l {bodies} (br $l)) (unreachable))"
        );
        let text = format!("{}{spend})", &text[..end]);
        let started = processor_time();
        let evaluation = evaluate_text(&sandbox, &text);
        let took = processor_time() - started;
        assert_eq!(
            evaluation.answer,
            Err(EvaluationError::OutOfFuel(50_000_000, Phase::Delay)),
            "{body}"
        );
        // Without compiling it.
        (took.min(evaluation.took), body.to_owned())
    };
    let (ordinary, _) = takes("(global.set $g (i32.add (global.get $g) (i32.const 1)))");
    let slow: Vec<_> = [
        "(drop (ref.func $spend))",
        "(table.set $t (i32.const 7) (ref.func $spend))",
        "(drop (table.grow $t (ref.null func) (i32.const 0)))",
        "(table.fill $t (i32.const 0) (ref.func $spend) (i32.const 90))",
        "(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 2)) (drop (table.get $t (i32.const 1)))",
        "(drop (memory.grow (i32.const 20000)))",
        "(memory.fill (i32.const 9000) (i32.const 1) (i32.const 0))",
        "(global.set $f (f64.sqrt (global.get $f)))",
        "(global.set $f (f64.div (global.get $f) (f64.const 1.1)))",
        "(global.set $f (f64.nearest (global.get $f)))",
        "(global.set $g (i32.rem_s (global.get $g) (i32.const 7)))",
    ]
    .map(takes)
    .into();
    for (took, body) in slow {
        assert!(
            took < 8 * ordinary + Duration::from_millis(200),
            "{took:?} for {body}, {ordinary:?} for additions"
        );
    }
}

fn processor_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).unwrap().into()
}

#[test]
fn the_clock_stops_a_policy_that_has_fuel_for_hours() {
    let limits = Limits {
        fuel: u64::MAX >> 1,
        time: Duration::from_millis(200),
        ..Limits::default()
    };
    let sandbox = Sandbox::new(limits).unwrap();
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(Rule::LOOP),
            ..Rule::default()
        },
    );
    assert_eq!(
        evaluation.answer,
        Err(EvaluationError::OutOfTime(
            Duration::from_millis(200),
            Phase::Delay
        ))
    );
    assert!(
        evaluation.took < Duration::from_secs(10),
        "{:?}",
        evaluation.took
    );
    assert_still_works(&sandbox);
}

#[test]
fn memory_grows_to_the_limit_and_no_further() {
    let sandbox = sandbox();
    let greedy =
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 100)) (i32.const -1)))) (unreachable)";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(greedy),
            ..Rule::default()
        },
    );
    assert_eq!(
        evaluation.answer,
        Err(EvaluationError::OutOfBounds("memory", Phase::Delay))
    );
    // 64 MiB are 1024 pages, of which the policy has 200 from the start: eight more steps of 100.
    let modest =
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 100)) (i32.const -1)))) (memory.size)";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(modest),
            ..Rule::default()
        },
    );
    assert_eq!(
        evaluation.answer.unwrap().action,
        Action::Retry {
            delay: Milliseconds(1_000)
        }
    );
    assert_still_works(&sandbox);
}

#[test]
fn a_policy_that_is_too_large_from_the_start_is_refused() {
    let text = "(module (memory (export \"memory\") 1025) (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (unreachable)) (func (export \"backstop:policy/backoff@0.1.0#delay\") (param i32) (result i32) (i32.const 1)))";
    for sandbox in [sandbox(), Sandbox::on_demand(Limits::default()).unwrap()] {
        match load(&sandbox, text.as_bytes()) {
            Err(ComponentError::Compile(_) | ComponentError::Link(_)) => {}
            Err(other) => panic!("{other}"),
            Ok(policy) => {
                let broken = policy
                    .evaluate(&failure(), &Arc::default())
                    .answer
                    .unwrap_err();
                assert_eq!(broken, EvaluationError::OutOfBounds("memory", Phase::Start));
            }
        }
    }
}

#[test]
fn traps_of_every_kind_end_the_policy_and_not_the_host() {
    let sandbox = sandbox();
    for (body, cause) in [
        ("(unreachable)", "unreachable"),
        ("(call $recurse (i32.const 0))", "stack"),
        ("(i32.div_u (i32.const 1) (i32.const 0))", "divide by zero"),
        ("(i32.load (i32.const -4))", "out of bounds"),
        (
            "(i32.trunc_f64_u (f64.div (f64.const 0) (f64.const 0)))",
            "integer",
        ),
    ] {
        match evaluate_rule(
            &sandbox,
            Rule {
                delay: Some(body),
                ..Rule::default()
            },
        )
        .answer
        {
            Err(EvaluationError::Trapped(text, Phase::Delay)) => {
                assert!(text.contains(cause), "{body}: {text}")
            }
            other => panic!("{body}: {other:?}"),
        }
        assert_still_works(&sandbox);
    }
}

#[test]
fn invalid_answers_are_errors() {
    let sandbox = sandbox();
    let judged = |body| Rule {
        judge: Some(body),
        ..Rule::default()
    };
    let classified = |body| Rule {
        classify: Some(body),
        ..Rule::default()
    };
    for (rule, expected) in [
        (judged("(i32.const 96)"), InvalidAnswer::Reason),
        (classified("(i32.const 160)"), InvalidAnswer::Class(0)),
        (
            Rule {
                delay: Some("(i32.const -1)"),
                ..Rule::default()
            },
            InvalidAnswer::Delay(Milliseconds(u32::MAX)),
        ),
        (
            Rule {
                delay: Some("(i32.const 1209600001)"),
                ..Rule::default()
            },
            InvalidAnswer::Delay(Milliseconds(1_209_600_001)),
        ),
    ] {
        assert_eq!(
            evaluate_rule(&sandbox, rule).answer,
            Err(EvaluationError::InvalidAnswer(expected))
        );
    }
    let kept = evaluate_rule(&sandbox, judged("(i32.const 128)"))
        .answer
        .unwrap();
    assert_eq!(
        kept.action,
        Action::DeadLetter {
            reason: "because".to_owned()
        }
    );
    let own = evaluate_rule(&sandbox, classified("(i32.const 144)"))
        .answer
        .unwrap();
    assert_eq!(own.class, ErrorClass::Other("cart".to_owned()));
}

#[test]
fn a_reason_of_ten_megabytes_never_reaches_the_host() {
    let sandbox = sandbox();
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            judge: Some("(i32.const 112)"),
            ..Rule::default()
        },
    );
    assert!(
        matches!(
            evaluation.answer,
            Err(EvaluationError::Trapped(_, Phase::Judge))
        ),
        "{:?}",
        evaluation.answer
    );
    assert_still_works(&sandbox);
}

#[test]
fn malformed_answers_are_traps() {
    let sandbox = sandbox();
    // A case that the variant does not have; a string that is not UTF-8; a string outside of memory.
    let no_case = "(i32.store8 (i32.const 3000) (i32.const 9)) (i32.const 3000)";
    let not_utf8 = "(i32.store8 (i32.const 2048) (i32.const 255)) (i32.const 128)";
    let outside = "(i32.store (i32.const 132) (i32.const -16)) (i32.const 128)";
    for body in [
        no_case,
        not_utf8,
        outside,
        "(i32.const -8)",
        "(i32.const 129)",
    ] {
        let evaluation = evaluate_rule(
            &sandbox,
            Rule {
                judge: Some(body),
                ..Rule::default()
            },
        );
        assert!(
            matches!(
                evaluation.answer,
                Err(EvaluationError::Trapped(_, Phase::Judge))
            ),
            "{body}: {:?}",
            evaluation.answer
        );
        assert_still_works(&sandbox);
    }
}

#[test]
fn a_configure_with_an_invalid_result_is_an_error_of_the_evaluation() {
    let sandbox = sandbox();
    let lying = Rule {
        configure: Some(Rule::FIRST),
        delay: Some("(unreachable)"),
        ..Rule::default()
    };
    assert!(matches!(
        evaluate_rule(&sandbox, lying).answer,
        Err(EvaluationError::Trapped(_, Phase::Delay))
    ));
    let refusing = Rule {
        configure: Some("(i32.const 128)"),
        delay: Some("(i32.const 1)"),
        ..Rule::default()
    };
    assert_eq!(
        evaluate_rule(&sandbox, refusing).answer,
        Err(EvaluationError::Settings("because".to_owned()))
    );
}

#[test]
fn settings_for_a_policy_without_settings_are_refused_by_name() {
    let sandbox = sandbox();
    let component = Component::load(&sandbox, "test", waits(1).as_bytes()).unwrap();
    let policy = Policy::single(
        &sandbox,
        Part {
            component,
            settings: [("base", "1s")].into(),
        },
    );
    let broken = policy
        .evaluate(&failure(), &Arc::default())
        .answer
        .unwrap_err();
    assert_eq!(broken, EvaluationError::NoSettings("`base`".to_owned()));
}

#[test]
fn computations_with_nan_are_the_same_on_every_machine() {
    let sandbox = sandbox();
    // The bits of 0/0 with a sign and a payload: canonical, whatever the processor makes of them.
    let nan = "(i32.shr_u (i32.reinterpret_f32 (f32.add (f32.reinterpret_i32 (i32.const 0xffc01234)) (f32.div (f32.const 0) (f32.const 0)))) (i32.const 8))";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(nan),
            ..Rule::default()
        },
    );
    assert_eq!(
        evaluation.answer.unwrap().action,
        Action::Retry {
            delay: Milliseconds(0x7f_c000)
        }
    );
}

#[test]
fn no_state_of_a_policy_survives_a_decision() {
    let sandbox = sandbox();
    let counting = "(i32.store (i32.const 3000) (i32.add (i32.load (i32.const 3000)) (i32.const 1))) (i32.load (i32.const 3000))";
    let policy = load(
        &sandbox,
        Rule {
            delay: Some(counting),
            ..Rule::default()
        }
        .text()
        .as_bytes(),
    )
    .unwrap();
    for _ in 0..50 {
        let answer = policy.evaluate(&failure(), &Arc::default()).answer.unwrap();
        assert_eq!(
            answer.action,
            Action::Retry {
                delay: Milliseconds(1)
            }
        );
    }
}

#[test]
fn a_flood_of_log_lines_is_cut_and_a_flood_of_calls_is_stopped() {
    let sandbox = sandbox();
    let line = "(call $log (i32.const 1) (i32.const 2048) (i32.const 7))";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(&format!("{line} (i32.const 1)")),
            ..Rule::default()
        },
    );
    assert_eq!(
        (
            evaluation.log[0].level.as_str(),
            evaluation.log[0].message.as_str()
        ),
        ("info", "because")
    );
    let flood = format!("(loop $l {line} (br $l)) (unreachable)");
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(&flood),
            ..Rule::default()
        },
    );
    assert!(
        matches!(&evaluation.answer, Err(EvaluationError::Trapped(text, _)) if text.contains("calls to the host")),
        "{:?}",
        evaluation.answer
    );
    assert!(
        evaluation
            .log
            .iter()
            .map(|line| line.message.len())
            .sum::<usize>()
            <= 4 << 10
    );
    assert_still_works(&sandbox);
}

#[test]
fn a_policy_that_reads_the_payload_endlessly_is_stopped() {
    let sandbox = sandbox();
    let look = "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000))";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(&format!("(loop $l {look} (br $l)) (unreachable)")),
            ..Rule::default()
        },
    );
    assert!(
        matches!(&evaluation.answer, Err(EvaluationError::Trapped(text, _)) if text.contains("calls to the host")),
        "{:?}",
        evaluation.answer
    );
    // Each lookup costs at least a kilobyte of 16 MiB, and each hit 12 bytes of pointer and text.
    assert!(evaluation.payload_reads.parts.len() == 1 && evaluation.payload_reads.left_out == 0);
    assert_still_works(&sandbox);
}

#[test]
fn a_policy_reads_the_payload_by_pointer_and_reads_are_recorded() {
    let sandbox = sandbox();
    // The pointer "/tenant" is at 2060, and the result, an option<string>, at 3000. Its length is the delay.
    let read =
        "(call $get (i32.const 2060) (i32.const 7) (i32.const 3000)) (i32.load (i32.const 3008))";
    let evaluation = evaluate_rule(
        &sandbox,
        Rule {
            delay: Some(read),
            ..Rule::default()
        },
    );
    assert_eq!(
        evaluation.answer.unwrap().action,
        Action::Retry {
            delay: Milliseconds(5)
        }
    );
    assert_eq!(
        evaluation.payload_reads.parts["/tenant"].as_deref(),
        Some(r#""t-1""#)
    );
}

#[test]
fn a_file_that_is_not_a_policy_is_rejected_with_an_explanation() {
    let sandbox = Sandbox::new(Limits {
        component: 1 << 20,
        ..Limits::default()
    })
    .unwrap();
    let good = wat::parse_str(waits(1)).unwrap();
    let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let engine_file = [b"\x7fELF\x02\x01\x01\xc8".as_slice(), &[0; 56]].concat();
    let mut newer = good.clone();
    newer[4] = 2;
    for (file, expected) in [
        (&b""[..], "empty"),
        (&elf[..1 << 19], "an ELF file"),
        (&engine_file, "ELF"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"\x1f\x8b\x08....", "a gzip archive"),
        (b"\xff\xfe\x00", "neither WebAssembly nor text"),
        (
            b"export function delay() {}",
            "text, but not of WebAssembly",
        ),
        (b"(module (func", "its text is not WebAssembly"),
        (b"\0asm", "the first bytes of a WebAssembly file"),
        (&newer, "version"),
        (&good[..good.len() / 2], "it is not valid"),
        (b"(module)", "exports no function of the contract"),
        (b"(component)", "it exports nothing"),
        (&vec![b' '; (1 << 20) + 1], "more than the limit of 1048576"),
    ] {
        let refused = load(&sandbox, file).map(|_| ()).unwrap_err().to_string();
        assert!(
            refused.contains(expected),
            "{expected:?} is not in: {refused}"
        );
    }
    assert_still_works(&sandbox);
}

/// One flipped bit makes the packages of this metadata form a cycle, on which its decoder recurses until the stack overflows.
#[test]
fn metadata_of_a_file_is_not_decoded() {
    let sandbox = sandbox();
    let whole = backstop_engine::builtin::bytes("full-jitter").unwrap();
    let name = b"backstop:policy";
    let metadata = b"component-type";
    let custom = (0..whole.len()).rfind(|at| whole[*at..].starts_with(metadata));
    let custom = custom.unwrap();
    let places: Vec<_> = (custom..whole.len())
        .filter(|at| whole[*at..].starts_with(name))
        .collect();
    assert!(places.len() > 3, "{places:?}");
    for place in places {
        let mut flipped = whole.to_vec();
        // `backstop:poliky`.
        flipped[place + name.len() - 2] ^= b'c' ^ b'k';
        let policy = load(&sandbox, &flipped).unwrap_or_else(|error| panic!("{error}"));
        let answer = policy.evaluate(&failure(), &Arc::default()).answer;
        assert!(answer.is_ok(), "{answer:?}");
    }
    // Nor is anything inside a component, at any depth.
    let nonsense =
        "(@custom \"component-type:x\" \"\\ff\\ff\\ff\") (@custom \"producers\" \"\\ff\")";
    let refused = load(
        &sandbox,
        format!("(component {nonsense} (core module {nonsense}) (component {nonsense}))")
            .as_bytes(),
    );
    let refused = refused.map(|_| ()).unwrap_err();
    assert!(
        matches!(refused, ComponentError::NoInterface { .. }),
        "{refused}"
    );
    assert_still_works(&sandbox);
}

#[test]
fn a_file_that_would_compile_for_minutes_is_refused_at_once() {
    let sandbox = sandbox();
    let rule = |delay: &str| {
        Rule {
            delay: Some(delay),
            ..Rule::default()
        }
        .text()
    };
    let blocks = "(block ".repeat(6_000);
    let tangled = format!(
        "{blocks}{}{} (i32.const 1)",
        "(br 0)".repeat(6_000),
        ")".repeat(6_000)
    );
    let elements = format!("(elem func {})", "0 ".repeat(300_000));
    let deep = format!("{}{}", "(component ".repeat(90), ")".repeat(90));
    let named = format!("{}{}", "block $a ".repeat(20_000), "br $a ".repeat(20_000));
    for (file, expected) in [
        (rule(&tangled), "levels of nested blocks in one function"),
        (
            waits(1).replacen("(module", &format!("(module {elements}"), 1),
            "elements in segments",
        ),
        (deep, "levels of nested components"),
        (format!("(module (func {named}))"), "20000 blocks and"),
        (
            format!("{};; {}", waits(1), "-".repeat(8 << 20)),
            "more than the limit of 8388608",
        ),
        ("(component ".repeat(90_000), "nesting too deep"),
        (
            format!("(component (type {}", "(list ".repeat(150_000)),
            "its text is not WebAssembly",
        ),
        (
            format!("(module (func {}", "(block ".repeat(100_000)),
            "its text is not WebAssembly",
        ),
    ] {
        let refused = load(&sandbox, file.as_bytes()).map(|_| ()).unwrap_err();
        assert!(matches!(refused, ComponentError::Encoding(_)), "{refused}");
        let refused = refused.to_string();
        assert!(
            refused.contains(expected),
            "{expected:?} is not in: {refused}"
        );
    }
    assert_still_works(&sandbox);
}

#[test]
fn an_import_of_a_module_that_is_not_granted_is_explained() {
    let text = waits(1).replacen("(module", "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func (param i32 i32 i32 i32) (result i32)))", 1);
    let refused = load(&sandbox(), text.as_bytes()).map(|_| ()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("it is a core module that imports `wasi_snapshot_preview1`"),
        "{refused}"
    );
}

#[test]
fn a_module_can_call_the_classification_of_the_host() {
    let text = r#"(module
        (import "backstop:policy/default-classifier@0.1.0" "classify"
            (func $classify (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
        (memory (export "memory") 1)
        (global $end (mut i32) (i32.const 1024))
        (func (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and
                (i32.sub (i32.add (global.get $end) (local.get $align)) (i32.const 1))
                (i32.sub (i32.const 0) (local.get $align))))
            (global.set $end (i32.add (local.get $at) (local.get $size)))
            (local.get $at))
        (func (export "backstop:policy/classifier@0.1.0#classify")
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
            (call $classify (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4)
                (local.get 5) (local.get 6) (local.get 7) (local.get 8) (local.get 9) (i32.const 16))
            (i32.const 16)))"#;
    let sandbox = sandbox();
    let policy = load(&sandbox, text.as_bytes()).unwrap();
    for (code, class) in [
        ("ThrottlingException", ErrorClass::Throttled),
        ("ValidationException", ErrorClass::Permanent),
        ("whatever else", ErrorClass::Transient),
    ] {
        let failure = backstop_tests::failure(code);
        let evaluation = policy.evaluate(&failure, &Arc::new(Payload::new("")));
        assert_eq!(evaluation.answer.unwrap().class, class);
    }
}

#[test]
fn a_precompiled_file_is_never_loaded() {
    let engine = wasmtime::Engine::default();
    let compiled = engine
        .precompile_component(&wat::parse_str("(component)").unwrap())
        .unwrap();
    let refused = load(&sandbox(), &compiled).map(|_| ()).unwrap_err();
    assert!(
        matches!(
            refused,
            ComponentError::Encoding(EncodingError::Precompiled)
        ),
        "{refused}"
    );
}

#[test]
fn an_import_that_is_not_granted_is_refused_by_name() {
    let sandbox = sandbox();
    for import in [
        "wasi:http/outgoing-handler@0.2.0",
        "backstop:policy/log@0.9.0",
        "wasi:cli/environment@0.3.0",
        "example:host/shell",
    ] {
        let text = format!(r#"(component (import "{import}" (instance)))"#);
        let refused = load(&sandbox, text.as_bytes()).map(|_| ()).unwrap_err();
        assert!(
            matches!(&refused, ComponentError::Import(name) if name == import),
            "{refused}"
        );
    }
    let core = r#"(module (import "env" "system" (func (param i32))) (memory (export "memory") 1)
        (func (export "backstop:policy/backoff@0.1.0#delay") (param i32) (result i32) (i32.const 1)))"#;
    assert!(
        load(&sandbox, core.as_bytes())
            .map(|_| ())
            .unwrap_err()
            .to_string()
            .contains("env")
    );
}

#[test]
fn an_interface_of_the_contract_with_other_functions_is_refused() {
    let text = r#"(component
        (core module $m (func (export "f") (result i32) (i32.const 1)))
        (core instance $i (instantiate $m))
        (func $f (result u32) (canon lift (core func $i "f")))
        (instance $b (export "delay-in-minutes" (func $f)))
        (export "backstop:policy/backoff@0.1.0" (instance $b)))"#;
    let refused = load(&sandbox(), text.as_bytes()).map(|_| ()).unwrap_err();
    assert!(
        matches!(
            refused,
            ComponentError::Interface {
                interface: "backstop:policy/backoff@0.1.0",
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn a_pool_and_instances_on_demand_give_the_same_answers() {
    let failure = failure();
    let answers: Vec<_> = [sandbox(), Sandbox::on_demand(Limits::default()).unwrap()]
        .iter()
        .map(|sandbox| {
            let policy =
                backstop_versions::load(sandbox, "full-jitter", &[("base", "2s")]).unwrap();
            policy.evaluate(&failure, &Arc::default()).answer.unwrap()
        })
        .collect();
    // U(0, 2 s * 4) at 0.25.
    assert_eq!(
        answers[0].action,
        Action::Retry {
            delay: Milliseconds(2_000)
        }
    );
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn many_threads_can_evaluate_at_once_without_exhausting_the_pool() {
    let sandbox = sandbox();
    let policy = backstop_versions::load(&sandbox, "linear", &[]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(
                        policy
                            .evaluate(&failure(), &Arc::default())
                            .answer
                            .unwrap()
                            .action,
                        Action::Retry {
                            delay: Milliseconds(3_000)
                        }
                    );
                }
            });
        }
    });
}

#[test]
fn a_policy_is_composed_of_parts_of_different_components() {
    let sandbox = sandbox();
    let part = |text: String| Part {
        component: Component::load(&sandbox, "part", text.as_bytes()).unwrap(),
        settings: Settings::new(),
    };
    let cart = || {
        part(
            Rule {
                classify: Some("(i32.const 144)"),
                ..Rule::default()
            }
            .text(),
        )
    };
    let policy = Policy::composed(
        &sandbox,
        Parts {
            classifier: Some(cart()),
            backoff: Some(part(waits(7))),
            dead_lettering: None,
            outage: None,
        },
    )
    .unwrap();
    let answer = policy.evaluate(&failure(), &Arc::default()).answer.unwrap();
    assert_eq!(
        (answer.class, answer.action),
        (
            ErrorClass::Other("cart".to_owned()),
            Action::Retry {
                delay: Milliseconds(7)
            }
        )
    );
    assert_eq!(policy.parts().count(), 2);
    let misplaced = Policy::composed(
        &sandbox,
        Parts {
            backoff: Some(cart()),
            ..Parts::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        misplaced.to_string(),
        "`part` is named as the backoff, but exports only backstop:policy/classifier@0.1.0"
    );
}

#[test]
fn the_hand_written_policy_of_the_examples_loads_and_has_its_delay() {
    let file = top().join("examples/first-policy.wat");
    let policy = LivePolicy::load(&sandbox(), PolicySpec::from(Source::path(file))).unwrap();
    let answer = policy
        .current()
        .evaluate(&failure(), &Arc::default())
        .answer
        .unwrap();
    assert_eq!(
        answer.action,
        Action::Retry {
            delay: Milliseconds(6_000)
        }
    );
}

#[test]
fn the_built_in_policies_are_small_and_import_nothing() {
    for name in backstop_engine::builtin::names() {
        let module = backstop_engine::builtin::bytes(name).unwrap();
        assert!(
            module.len() <= 64 << 10,
            "{name} has {} bytes",
            module.len()
        );
        let imports = wasmparser::Parser::new(0)
            .parse_all(module)
            .filter(|part| matches!(part, Ok(wasmparser::Payload::ImportSection(_))))
            .count();
        assert_eq!(imports, 0, "{name}");
    }
}
