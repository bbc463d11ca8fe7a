//! Generates failures from a seed: ordinary, extreme and odd ones.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_backoff::CODES;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde_json::Value;

use super::dictionary::Dictionary;
use backstop_core::decision::LONGEST_DELAY;
use backstop_core::failure::{Error, Failure, ID_BYTES, Milliseconds, Timestamp};
use backstop_engine::Payload;
use backstop_versions::preset::PRESETS;
use backstop_versions::scenario::Scenario;

/// A failure and the message's body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) failure: Failure,
    pub(super) body: String,
}

impl Case {
    pub(super) fn payload(&self) -> Arc<Payload> {
        Arc::new(Payload::new(self.body.as_str()))
    }

    /// The same failure with attributes and details in reverse order. Their order has no meaning.
    pub(super) fn reordered(&self) -> Self {
        let mut reordered = self.clone();
        reordered.failure.attributes.reverse();
        reordered.failure.error.details.reverse();
        reordered
    }
}

/// The words of generated failures, in addition to arbitrary text: the host's tables, the author's scenarios, and what the policy's file contains.
#[derive(Debug)]
pub(super) struct Vocabulary {
    codes: Vec<String>,
    details: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
    bodies: Vec<String>,
    dictionary: Dictionary,
}

impl Vocabulary {
    pub(super) fn of(scenarios: &[Scenario]) -> Self {
        let given: Vec<_> = scenarios.iter().map(|it| it.given.failure()).collect();
        let presets = PRESETS.iter().map(|preset| preset.error());
        let known = CODES.iter().flat_map(|(_, _, codes)| codes.iter());
        let ordinary = ["HTTP 503".to_owned()].into_iter();
        let codes = ordinary
            .chain(given.iter().map(|failure| failure.error.code.clone()))
            .chain(presets.clone().map(|error| error.code))
            .chain(known.map(|code| (*code).to_owned()));
        let details = given
            .iter()
            .flat_map(|failure| failure.error.details.clone());
        let attributes = given.iter().flat_map(|failure| failure.attributes.clone());
        let bodies = scenarios.iter().map(|scenario| scenario.payload.as_str());
        let odd = ["", "not json", "null", "[]", "{}"].into_iter();
        Self {
            codes: unique(codes),
            details: unique(presets.flat_map(|error| error.details).chain(details)),
            attributes: unique([pair("tenant", "t-1")].into_iter().chain(attributes)),
            bodies: unique(odd.map(str::to_owned).chain(bodies.flat_map(variants))),
            dictionary: Dictionary::default(),
        }
    }

    /// These, and the words of a policy.
    pub(super) fn with(self, dictionary: Dictionary) -> Self {
        Self { dictionary, ..self }
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Removes repetitions and keeps the order.
fn unique<T: Ord + Clone>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

/// A body, and its variants with one member missing, null or of another type.
fn variants(body: &str) -> Vec<String> {
    let mut bodies = vec![body.to_owned()];
    if let Ok(Value::Object(object)) = serde_json::from_str(body) {
        for name in object.keys() {
            let mut without = object.clone();
            without.remove(name);
            bodies.push(Value::Object(without).to_string());
            for other in [Value::Null, Value::from(-1), Value::from("odd")] {
                let mut changed = object.clone();
                changed.insert(name.clone(), other);
                bodies.push(Value::Object(changed).to_string());
            }
        }
    }
    bodies
}

/// The endless sequence of failures of this seed. Every other one has words of the policy's.
pub(super) fn cases(seed: u64, words: &Vocabulary) -> impl Iterator<Item = Case> + use<> {
    let mut bytes = [0; 32];
    bytes
        .iter_mut()
        .zip(seed.to_le_bytes())
        .for_each(|(byte, of_seed)| *byte = of_seed);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    // Failures are not saved to files. The strategy rejects none, so that it can't fail.
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let strategy = strategy(words);
    let dictionary = words.dictionary.clone();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut is_plain = false;
    std::iter::from_fn(move || {
        let mut case = strategy.new_tree(&mut runner).ok()?.current();
        is_plain = !is_plain;
        if !is_plain && !dictionary.is_empty() {
            dictionary.insert(&mut case, &mut random);
        }
        Some(case)
    })
}

fn strategy(words: &Vocabulary) -> impl Strategy<Value = Case> + use<> {
    let message_id = prop_oneof![3 => Just("m-1".to_owned()), 1 => text(1..ID_BYTES / 4)];
    let source = select(vec![
        "local:test",
        "arn:aws:sqs:eu-west-1:123456789012:orders",
        "arn:aws:lambda:eu-west-1:123456789012:function:orders:$LATEST",
    ]);
    let attempt = prop_oneof![
        5 => 1..=10_u32, 3 => 1..=100_u32, 2 => 1..=1_000_u32, 1 => 1..=100_000_u32, 1 => 1..=u32::MAX,
    ];
    let age = prop_oneof![
        4 => 0..=60_000_u32, 3 => 0..=86_400_000_u32, 2 => 0..=LONGEST_DELAY.0, 1 => Just(LONGEST_DELAY.0),
    ];
    let failed_at = prop_oneof![3 => Just(1_767_225_600_000_u64), 1 => 0..=4_000_000_000_000_u64];
    let previous_delay = option::of(prop_oneof![0..=60_000_u32, 0..=LONGEST_DELAY.0]);
    let random = prop_oneof![
        1 => Just(0.0), 6 => 0.0..1.0_f64, 1 => Just(1.0 - f64::EPSILON / 2.0),
    ];
    let attributes = named(&words.attributes, 10);
    let bodies = select(words.bodies.clone());
    (
        message_id,
        source,
        attempt,
        age,
        failed_at,
        previous_delay,
        error(words),
        attributes,
        random,
        bodies,
    )
        .prop_map(
            |(message_id, source, attempt, age, at, previous, error, attributes, random, body)| {
                Case {
                    failure: Failure {
                        message_id,
                        source: source.to_owned(),
                        attempt: NonZeroU32::new(attempt).unwrap_or(NonZeroU32::MIN),
                        age: Milliseconds(age),
                        failed_at: Timestamp(at),
                        previous_delay: previous.map(Milliseconds),
                        error,
                        attributes,
                        random,
                    },
                    body,
                }
            },
        )
}

fn error(words: &Vocabulary) -> impl Strategy<Value = Error> + use<> {
    let code = prop_oneof![
        8 => select(words.codes.clone()), 2 => text(0..40), 1 => text(0..2_000),
    ];
    let message = prop_oneof![3 => Just(String::new()), 3 => text(0..100), 1 => text(0..4_096)];
    let usual = select(vec![
        503_u16, 429, 400, 404, 500, 403, 408, 422, 502, 504, 200,
    ]);
    let status = option::of(prop_oneof![4 => usual, 1 => 0..=u16::MAX]);
    let retry_after = option::weighted(
        0.3,
        prop_oneof![3 => 0..=60_000_u32, 2 => 0..=LONGEST_DELAY.0, 1 => 0..=u32::MAX],
    );
    let details = named(&words.details, 4);
    (code, message, status, retry_after, details).prop_map(
        |(code, message, status, retry_after, details)| {
            Error::new(code, message)
                .status(status)
                .retry_after(retry_after.map(Milliseconds))
                .details(details)
                .within_bounds()
        },
    )
}

/// Names with values: known ones, known names with odd values, and odd names. No name occurs twice.
fn named(
    known: &[(String, String)],
    most: usize,
) -> impl Strategy<Value = Vec<(String, String)>> + use<> {
    let known = select(known.to_vec());
    let odd_value = (known.clone(), text(0..100)).prop_map(|((name, _), value)| (name, value));
    let odd = (text(1..20), text(0..100));
    vec(prop_oneof![4 => known, 2 => odd_value, 1 => odd], 0..=most)
        .prop_map(|pairs| BTreeMap::from_iter(pairs).into_iter().collect())
}

/// Arbitrary text of this many characters, including control and combining characters and emoji.
fn text(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let character = prop_oneof![6 => proptest::char::range('a', 'z'), 2 => any::<char>(), 1 => select(vec!['\0', '\n', '"', 'é', '😀', '\u{202e}', '\u{301}'])];
    vec(character, length).prop_map(String::from_iter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_failures() {
        let words = Vocabulary::of(&[]);
        let generated = |seed| cases(seed, &words).take(20).collect::<Vec<_>>();
        assert_eq!(generated(1), generated(1));
        assert_ne!(generated(1), generated(2));
    }

    #[test]
    fn generated_failures_are_within_the_contract_and_reach_its_limits() {
        let words = Vocabulary::of(&[]);
        let generated: Vec<_> = cases(0, &words).take(2_000).collect();
        for case in &generated {
            let failure = &case.failure;
            assert!((0.0..1.0).contains(&failure.random));
            assert!(failure.age <= LONGEST_DELAY && failure.attributes.len() <= 10);
            assert_eq!(*failure, *failure.within_bounds());
        }
        type Edge = fn(&Failure) -> bool;
        let edges: [(&str, Edge); 9] = [
            ("a first attempt", |it| it.attempt.get() == 1),
            ("attempts beyond any limit", |it| {
                it.attempt.get() > 1_000_000
            }),
            ("the highest age", |it| it.age == LONGEST_DELAY),
            ("the lowest random number", |it| it.random == 0.0),
            ("the highest random number", |it| it.random > 0.999_999_999),
            ("a code of the host's table", |it| {
                it.error.code == "EAI_AGAIN"
            }),
            ("an empty code", |it| it.error.code.is_empty()),
            ("a control character", |it| it.error.message.contains('\0')),
            ("a retry-after beyond the retention", |it| {
                it.error.retry_after > Some(LONGEST_DELAY)
            }),
        ];
        for (what, reached) in edges {
            assert!(
                generated.iter().any(|case| reached(&case.failure)),
                "{what}"
            );
        }
    }

    #[test]
    fn a_body_has_variants_with_a_member_missing_or_odd() {
        let generated = variants(r#"{"total": 5}"#);
        let expected = [
            "{}",
            r#"{"total":null}"#,
            r#"{"total":-1}"#,
            r#"{"total":"odd"}"#,
        ];
        assert_eq!(generated.get(1..), Some(&expected.map(str::to_owned)[..]));
        assert_eq!(variants("plain"), ["plain"]);
    }
}
