//! Calls that a test drives step by step.

use super::*;
use crate::{End, FullJitter, Linear};

/// Drives a call whose attempts end so, in virtual time, and returns the waits and the end.
fn drive(
    retrier: &Stepped,
    options: Options,
    mut outcome: impl FnMut(u32) -> Result<(), Error>,
) -> (Vec<Duration>, Option<RetryError<Error>>) {
    let mut call = retrier.call(options);
    let mut waits = Vec::new();
    let mut step = call.begin();
    loop {
        step = match step {
            Step::Attempt { attempt, .. } => match outcome(attempt.number()) {
                Ok(()) => call.succeeded(),
                Err(error) => call.failed(error),
            },
            Step::Wait(time) => {
                waits.push(time);
                retrier.clock().advance(time);
                call.waited()
            }
            Step::Succeeded => return (waits, None),
            Step::Ended(error) => return (waits, Some(*error)),
        }
    }
}

fn linear() -> Stepped {
    let policy = Linear::default()
        .base(Duration::from_secs(1))
        .max_attempts(4);
    let builder = Retrier::builder().policy(policy).seed(7);
    Stepped::with(builder, SteppedClock::by_hand()).unwrap()
}

fn busy() -> Result<(), Error> {
    Err(Error::new("HTTP 503", "busy"))
}

#[test]
fn a_call_waits_as_its_policy_decides_and_ends() {
    let seconds = |number| Duration::from_secs(number);
    let (waits, error) = drive(&linear(), Options::default(), |_| busy());
    assert_eq!(waits, [seconds(1), seconds(2), seconds(3)]);
    assert_eq!(error.unwrap().end(), End::GaveUp);

    let third = |number| if number == 3 { Ok(()) } else { busy() };
    let (waits, error) = drive(&linear(), Options::default(), third);
    assert_eq!(waits, [seconds(1), seconds(2)]);
    assert!(error.is_none());
}

#[test]
fn no_wait_begins_that_cannot_end_before_the_deadline() {
    let options = Options {
        deadline: Some(Duration::from_secs(2).into()),
        ..Options::default()
    };
    let (waits, error) = drive(&linear(), options, |_| busy());
    assert_eq!(waits, [Duration::from_secs(1)]);
    assert_eq!(error.unwrap().end(), End::DeadlineExceeded);
}

#[test]
fn retries_without_a_delay_come_at_once() {
    let builder = Retrier::builder()
        .policy(FullJitter::default().max_attempts(9))
        .max_delay(Duration::ZERO);
    let retrier = Stepped::with(builder, SteppedClock::by_hand()).unwrap();
    let mut attempts = 0;
    let (waits, error) = drive(&retrier, Options::default(), |_| {
        attempts += 1;
        busy()
    });
    assert_eq!((waits.len(), attempts), (0, 9));
    assert_eq!(error.unwrap().attempts(), 9);
}

#[test]
fn an_attempt_is_cut_short_by_who_can() {
    let builder = Retrier::builder()
        .attempt_timeout(Duration::from_secs(2))
        .max_attempts(1);
    let retrier = Stepped::with(builder, SteppedClock::by_hand()).unwrap();
    let mut call = retrier.call(Options::default());
    let Step::Attempt { cut_after, .. } = call.begin() else {
        panic!("a call begins with an attempt");
    };
    assert_eq!(cut_after, Some(Duration::from_secs(2)));
    retrier.clock().advance(Duration::from_secs(2));
    let Step::Ended(error) = call.waited() else {
        panic!("it was the only attempt");
    };
    assert_eq!(error.ended().description().unwrap().code, "Timeout");
}

#[test]
fn a_call_that_finds_its_bulkhead_full_looks_again() {
    let bulkhead = crate::Bulkhead::new("payments", 1);
    let builder = Retrier::builder().bulkhead(&bulkhead);
    let retrier = Stepped::with(builder, SteppedClock::by_hand()).unwrap();
    let (mut first, mut second) = (
        retrier.call(Options::default()),
        retrier.call(Options::default()),
    );
    assert!(matches!(first.begin(), Step::Attempt { .. }));
    assert!(matches!(second.begin(), Step::Wait(PLACE_CHECK)));
    assert!(matches!(second.waited(), Step::Wait(PLACE_CHECK)));
    assert!(matches!(first.succeeded(), Step::Succeeded));
    assert!(matches!(second.waited(), Step::Attempt { .. }));
}

#[test]
fn a_call_that_is_dropped_gives_back_what_it_has_reserved() {
    let budget = crate::Budget::aws_2_1();
    let full = budget.left();
    let builder = Retrier::builder().budget(&budget).max_attempts(3);
    let retrier = Stepped::with(builder, SteppedClock::by_hand()).unwrap();
    let mut call = retrier.call(Options::default());
    assert!(matches!(call.begin(), Step::Attempt { .. }));
    let waits = call.failed(Error::new("HTTP 503", ""));
    assert!(matches!(waits, Step::Wait(_)), "{waits:?}");
    assert!(budget.left() < full);
    drop(call);
    assert_eq!(budget.left(), full);
}
