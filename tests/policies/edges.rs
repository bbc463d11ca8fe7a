//! The edges of every type of the contract: a policy that logs its input and returns the failure's `retry-after`.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use backstop_core::decision::{Action, Answer, ErrorClass, InvalidAnswer, LONGEST_DELAY};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};
use backstop_engine::{EvaluationError, Payload};

use crate::card_payments::{attempts, compiled};

/// The edges of a u32: those of a signed number too.
const NUMBERS: [u32; 6] = [0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, u32::MAX];

/// Texts that a string of C, of UTF-16 or of a template may trip over.
const TEXTS: [&str; 6] = [
    "",
    "\0",
    "a\0b",
    "é😀\u{301}\u{202e}",
    "`$%{}\"\\\r\n",
    "\u{10ffff}\u{fffd}",
];

/// Numbers from 0 to below 1, and points in time.
const FRACTIONS: [f64; 5] = [
    0.0,
    5e-324,
    f64::MIN_POSITIVE,
    0.1 + 0.2,
    1.0 - f64::EPSILON / 2.0,
];
const MOMENTS: [u64; 5] = [0, 1 << 31, 1 << 32, 1_767_225_600_001, 1 << 53];

/// The smallest attempt that the policy logs; on earlier ones it crashes.
const WRITTEN: u32 = 9;

/// Failures with each of them in every field that can hold it.
fn failures() -> Vec<Failure> {
    let number = |index: usize| NUMBERS[index % NUMBERS.len()];
    let text = |index: usize| TEXTS[index % TEXTS.len()].to_owned();
    let option = |index: usize| (!index.is_multiple_of(4)).then(|| Milliseconds(number(index)));
    let pairs = |index: usize| {
        let count = [0, 1, 2, 40][index % 4];
        let pairs = (0..count).map(|at| (format!("{at}{}", text(index + at)), text(at)));
        pairs.collect::<Vec<_>>()
    };
    let error = |index: usize| {
        let long = "x".repeat(2_000);
        let message = if index == 7 { long } else { text(index + 2) };
        Error::new("lock_timeout", message)
            .status([None, Some(0), Some(500), Some(u16::MAX)][index % 4])
            .retry_after(option(index))
            .details(pairs(index))
    };
    let failure = |index: usize| Failure {
        message_id: text(index),
        source: text(index + 1),
        // The highest is given up: another test covers it.
        attempt: NonZeroU32::new(number(index).clamp(WRITTEN, u32::MAX - 1)).unwrap(),
        age: Milliseconds(number(index + 1)),
        failed_at: Timestamp(MOMENTS[index % MOMENTS.len()]),
        previous_delay: option(index + 1),
        error: error(index),
        attributes: pairs(index + 1),
        random: FRACTIONS[index % FRACTIONS.len()],
    };
    // Every pair of an attempt and a `retry-after`, with the other values alongside.
    (0..24).map(failure).collect()
}

/// The lines that the policy logs about a failure; fractions are separate, since languages format them differently.
fn lines(failure: &Failure) -> (Vec<String>, [f64; 2]) {
    let Failure { error, .. } = failure;
    let option = |number: Option<u32>| number.map_or("none".to_owned(), |it| it.to_string());
    let mut lines = vec![
        format!("id={}", failure.message_id),
        format!("source={}", failure.source),
        format!("attempt={}", failure.attempt),
        format!("age={}", failure.age.0),
        format!("previous={}", option(failure.previous_delay.map(|it| it.0))),
        format!("code={}", error.code),
        format!("message={}", error.message),
        format!("status={}", option(error.status.map(u32::from))),
        format!("after={}", option(error.retry_after.map(|it| it.0))),
    ];
    for (name, value) in error.details.iter().chain(&failure.attributes) {
        lines.push(format!("{name}={value}"));
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact for the next 285,000 years"
    )]
    let at = failure.failed_at.0 as f64;
    (lines, [at, failure.random])
}

/// Fails if a value of the contract changes on its way in or out, or if the host does not notice that the policy reads the clock.
pub(crate) fn assert_arrive(component: &Path, reads_clock: bool) {
    let subject = compiled(component);
    let policy = subject.policy(&attempts("4294967295"));
    let payload = Arc::new(Payload::new(r#"{"tenant": "t-1"}"#));
    for failure in failures() {
        let evaluation = policy.evaluate(&failure, &payload);
        let delay = failure.error.retry_after.unwrap_or_default();
        let expected = if delay > LONGEST_DELAY {
            Err(EvaluationError::InvalidAnswer(InvalidAnswer::Delay(delay)))
        } else {
            Ok(Answer::new(ErrorClass::Transient, Action::Retry { delay }))
        };
        assert_eq!(
            evaluation.answer, expected,
            "{failure:#?}\n{:#?}",
            evaluation.log
        );
        assert_eq!(evaluation.read_clock, reads_clock);
        let written: Vec<_> = evaluation
            .log
            .iter()
            .map(|line| line.message.as_str())
            .collect();
        let (lines, fractions) = lines(&failure);
        let (texts, numbers) = written[1..].split_at(lines.len());
        assert_eq!(texts, lines, "{failure:#?}");
        let numbers: Vec<f64> = numbers
            .iter()
            .map(|number| number.parse().unwrap())
            .collect();
        assert_eq!(numbers, fractions, "{failure:#?}");
    }
    let last = Failure {
        attempt: NonZeroU32::MAX,
        ..backstop_tests::failure("lock_timeout")
    };
    let evaluation = policy.evaluate(&last, &payload).answer.unwrap();
    let reason = "not charged after 4294967295 attempts".to_owned();
    assert_eq!(evaluation.action, Action::DeadLetter { reason });
}
