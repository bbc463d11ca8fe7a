//! The built-in policies in Rust answer as their components do.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_core::examples::{failures, ordinary_failure};
use backstop_core::failure::{Error, Failure, Milliseconds};
use backstop_core::policy::{NAMES, by_name};
use backstop_core::settings::Settings;
use backstop_engine::{
    Component, EvaluationError, Limits, Part, Payload, Policy, Sandbox, builtin,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

/// Codes of every class, and some that are in no table.
const CODES: [&str; 18] = [
    "ThrottlingException",
    "com.amazonaws.sqs#RequestThrottled",
    "TransactionInProgressException",
    "IDPCommunicationError",
    "OverLimit",
    "RequestTimeout",
    "InternalServerError",
    "ECONNRESET",
    "tokio::time::error::Elapsed",
    "exit 75",
    "AccessDeniedException",
    "exit 65",
    "InProgress",
    "IdempotencyOutcomeUnknown",
    "HTTP 429",
    "HTTP 503",
    "OutOfStock",
    "",
];

fn error() -> impl Strategy<Value = Error> {
    let long = (0..9_000_usize).prop_map(|count| format!("{}.AccessDenied", "é".repeat(count)));
    let code = prop_oneof![
        8 => select(&CODES[..]).prop_map(str::to_owned),
        2 => any::<String>(),
        1 => long,
    ];
    let status = prop::option::of(prop_oneof![
        select(vec![400, 408, 429, 500, 501, 503, 509]),
        any::<u16>()
    ]);
    (code, status, prop::option::of(milliseconds())).prop_map(|(code, status, retry_after)| {
        Error::new(code, "").status(status).retry_after(retry_after)
    })
}

fn milliseconds() -> impl Strategy<Value = Milliseconds> {
    prop_oneof![0..10_000_u32, any::<u32>()].prop_map(Milliseconds)
}

fn failure() -> impl Strategy<Value = Failure> {
    let attempt = prop_oneof![1..12_u32, 1..=u32::MAX].prop_map(|n| NonZeroU32::new(n).unwrap());
    let random = prop_oneof![4 => 0.0..1.0, 1 => any::<f64>()];
    let previous_delay = prop::option::of(milliseconds());
    (error(), attempt, milliseconds(), previous_delay, random).prop_map(
        |(error, attempt, age, previous_delay, random)| Failure {
            error,
            attempt,
            age,
            previous_delay,
            random,
            ..ordinary_failure()
        },
    )
}

/// Settings by name, of this policy or of another, valid or not.
fn settings() -> impl Strategy<Value = Settings> {
    let names = vec![
        "base",
        "throttling-base",
        "cap",
        "floor",
        "max-attempts",
        "max-age",
        "respect-retry-after",
        "service",
        "permanent",
        "transient",
        "throttled",
        "bass",
    ];
    let durations = ["0s", "1ms", "50ms", "2s", "20s", "15m", "12h", "14d", "15d"];
    let pair = (select(names), any::<usize>()).prop_map(move |(name, n)| {
        let values = match name {
            "max-attempts" => &["1", "2", "3", "9", "0", "many", "4294967295"][..],
            "respect-retry-after" => &["on", "off", "off", "maybe"],
            "service" => &["dynamodb", "other", "s3"],
            "permanent" => &["OutOfStock", "exit 65, *Exception", "*", "", "a,,b"],
            "transient" => &["OutOf*", "*", "ThrottlingException,HTTP 4*", "ns#*"],
            "throttled" => &["OutOfStock", "ECONNRESET", "*Stock", "HTTP 503,HTTP 5*"],
            _ => &durations,
        };
        (
            name,
            values.get(n % values.len()).copied().unwrap_or_default(),
        )
    });
    prop::collection::vec(pair, 0..5).prop_map(|pairs| pairs.into_iter().collect())
}

#[test]
fn a_native_policy_answers_as_its_component_does() {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let payload = Arc::new(Payload::new(""));
    for name in NAMES {
        let bytes =
            builtin::bytes(name).unwrap_or_else(|| panic!("builtin.rs has no module `{name}`"));
        let component = Component::load(&sandbox, name, bytes).unwrap();
        let same = |failure: &Failure, settings: &Settings| {
            let part = Part {
                component: Arc::clone(&component),
                settings: settings.clone(),
            };
            let evaluation = Policy::single(&sandbox, part).evaluate(failure, &payload);
            let native = by_name(name, settings).map(|policy| {
                policy.validate().unwrap();
                policy.answer(failure)
            });
            match (evaluation.answer, native) {
                (Ok(answer), native) => assert_eq!(native.as_ref(), Ok(&answer), "{name}"),
                (Err(EvaluationError::Settings(text)), native) => {
                    assert_eq!(native.unwrap_err().to_string(), text, "{name}");
                }
                (Err(broken), _) => panic!("{name}: {broken}"),
            }
        };
        for failure in failures() {
            same(&failure, &Settings::new());
        }
        let config = Config {
            cases: 1_000,
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&(failure(), settings()), |(failure, settings)| {
                same(&failure, &settings);
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn every_built_in_policy_has_a_native_one() {
    assert!(builtin::names().eq(NAMES));
}
