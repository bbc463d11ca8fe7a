//! What senders write never breaks a policy that cuts, logs and answers it: no half of a surrogate pair gets to the host.

use std::path::Path;
use std::sync::Arc;

use crate::card_payments::{attempts, compiled};
use backstop_core::failure::{Error, Failure};
use backstop_engine::Payload;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

/// How many bodies each language gets.
const BODIES: u32 = 300;

/// Parts of the strings of a body, as they are in JSON.
const WRITTEN: [&str; 12] = [
    r"\ud83d",
    r"\uDE00",
    r"\ud83d\ude00",
    r"\\",
    r"\n",
    r"\u0000",
    "😀",
    "é",
    "x",
    "tenant",
    "/",
    "~1",
];

/// Parts of attributes and errors. Some are JSON themselves.
const TEXTS: [&str; 6] = ["😀", "é", "x", "\0", "\u{ffff}", r"\ud83d"];

fn string() -> impl Strategy<Value = String> {
    prop::collection::vec(select(&WRITTEN[..]), 0..8)
        .prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn text() -> impl Strategy<Value = String> {
    let plain = prop::collection::vec(select(&TEXTS[..]), 0..6).prop_map(|parts| parts.concat());
    prop_oneof![plain, string()]
}

/// Any JSON value. Its whole is an object with a `tenant` every other time.
fn body() -> impl Strategy<Value = String> {
    let number = select(&["0", "-1.10", "1e400", "123456789012345678901234567890"][..]);
    let leaf = prop_oneof![
        4 => string(),
        1 => number.prop_map(str::to_owned),
        1 => select(&["null", "true"][..]).prop_map(str::to_owned),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        let member = (string(), inner.clone()).prop_map(|(name, value)| format!("{name}:{value}"));
        let list = prop::collection::vec(inner, 0..4);
        let object = prop::collection::vec(member, 0..4);
        prop_oneof![
            list.prop_map(|values| format!("[{}]", values.join(","))),
            object.prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    (any::<bool>(), value).prop_map(|(is_tenant, value)| {
        if is_tenant {
            format!("{{\"tenant\":{value}}}")
        } else {
            value
        }
    })
}

/// Fails if a policy that treats its input carelessly breaks on any of many bodies, attributes and errors.
pub(crate) fn assert_never_break(component: &Path) {
    let subject = compiled(component);
    let policy = subject.policy(&attempts("8"));
    let attributes = prop::collection::vec((text(), text()), 0..3);
    let input = (body(), attributes, text());
    let config = Config {
        cases: BODIES,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let tested = runner.run(&input, |(body, attributes, text)| {
        let failure = Failure {
            error: Error::new("lock_timeout", format!("cut{text}")),
            attributes,
            ..backstop_tests::failure("lock_timeout")
        };
        let evaluation = policy.evaluate(&failure, &Arc::new(Payload::new(body)));
        prop_assert!(evaluation.answer.is_ok(), "{evaluation:#?}");
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{}: {error}", component.display()));
}
