//! What a call retries by its own conditions, and what it lends to its attempts.

use std::cell::Cell;
use std::error::Error as _;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::{Action, DecidedBy, ErrorClass};
use backstop_core::failure::Error;
use backstop_core::policy::{AwsSdk, FullJitter, Linear};

use crate::{End, Event, Retrier, RetrierBuilder, RetryError, TestClock};

const SECOND: Duration = Duration::from_secs(1);

fn builder(clock: &TestClock) -> RetrierBuilder {
    let policy = Linear::default().base(SECOND).max_attempts(4);
    Retrier::builder().clock(clock.clone()).policy(policy)
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

#[test]
fn an_error_that_is_permanent_makes_one_attempt_with_every_policy() {
    let clock = TestClock::new();
    let builder = || Retrier::builder().clock(clock.clone());
    for retrier in [
        builder(),
        builder().policy(AwsSdk::v2_0()),
        builder().policy(FullJitter::default()),
    ] {
        let retrier = retrier.build().unwrap();
        for code in ["CardDeclined", "ECONNRESET", "ThrottlingException"] {
            let call = retrier.run(async |_| Err::<(), _>(Error::permanent(code, "no")));
            let error = clock.block_on(call).unwrap_err();
            assert_eq!(
                (error.end(), error.attempts()),
                (End::Permanent, 1),
                "{code}"
            );
        }
        let call = retrier.run(async |_| Err::<(), _>(not_found()));
        let error = clock.block_on(call).unwrap_err();
        assert_eq!((error.end(), error.attempts()), (End::Permanent, 1));
    }
    assert_eq!(clock.elapsed(), Duration::ZERO);
}

#[test]
fn retry_if_ends_the_call_for_other_errors_and_leaves_the_rest_to_the_policy() {
    let clock = TestClock::new();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ended);
    let retrier = builder(&clock).observe(move |event: &Event<'_>| {
        if let Event::Ended {
            failed: Some((_, evaluated)),
            ..
        } = event
        {
            seen.lock().unwrap().push(evaluated.decision.clone());
        }
    });
    let retrier = retrier.build().unwrap();
    let call = retrier
        .run(async |_| Err::<(), _>(Error::new("HTTP 503", "busy")))
        .retry_if(|error| error.code != "HTTP 503");
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::Permanent, 1));
    assert_eq!(error.into_inner().unwrap().code, "HTTP 503");

    // Each has to say yes, in whatever order they and `describe` are.
    let call = retrier
        .run(async |_| Err::<(), _>("busy"))
        .retry_if(|_| true)
        .describe(|text| Error::new(*text, ""))
        .retry_if(|_| true);
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::GaveUp, 4));
    let call = retrier
        .run(async |_| Err::<(), _>(not_found()))
        .retry_if(|_| true);
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::Permanent, 1));

    let ended = ended.lock().unwrap();
    assert_eq!(ended[0].class, ErrorClass::Permanent);
    assert_eq!(
        ended[0].decided_by,
        DecidedBy::Bound("the call's retry_if".to_owned())
    );
    assert_eq!(
        ended[0].action,
        Action::DeadLetter {
            reason: "the call's retry_if refuses the error: HTTP 503".to_owned()
        }
    );
    assert_eq!(ended[2].decided_by, DecidedBy::Policy);
}

#[test]
fn a_value_can_be_retried_by_every_policy() {
    let clock = TestClock::new();
    for retrier in [
        builder(&clock),
        builder(&clock).policy(AwsSdk::v2_1().max_attempts(4)),
    ] {
        let retrier = retrier.build().unwrap();
        let running = |until: u32| {
            retrier
                .run(move |attempt| async move { Ok::<_, Error>(attempt.number() >= until) })
                .retry_if_ok(|is_done| !is_done)
        };
        assert!(clock.block_on(running(4)).unwrap());
        let error = clock.block_on(running(5)).unwrap_err();
        assert_eq!((error.end(), error.attempts()), (End::GaveUp, 4));
        assert_eq!(error.description().unwrap().code, "NotReady");
        assert!(error.error().is_none());
        assert!(
            error
                .source()
                .unwrap()
                .to_string()
                .starts_with("NotReady: ")
        );
    }
}

#[test]
fn a_value_is_lent_to_each_attempt_and_comes_back_from_one_that_is_cut_short() {
    let clock = TestClock::new();
    let retrier = builder(&clock).attempt_timeout(SECOND).build().unwrap();
    let mut attempts = Vec::new();
    let call = retrier.run_with(&mut attempts, |mut attempts, attempt| async move {
        attempts.push(attempt.number());
        match attempt.number() {
            1 => pending().await,
            2 => Err(Error::new("Busy", "")),
            _ => Ok(attempts.len()),
        }
    });
    assert_eq!(clock.block_on(call).unwrap(), 3);
    assert_eq!(attempts, [1, 2, 3]);
    fn is_send<T: Send>(_: &T) {}
    is_send(&retrier.run_with(7, |mut number, _| async move {
        *number += 1;
        Ok::<_, Error>(*number)
    }));
}

#[test]
#[should_panic(expected = "still lent to an earlier attempt")]
fn a_value_that_an_attempt_keeps_is_reported() {
    let clock = TestClock::new();
    let retrier = builder(&clock).build().unwrap();
    let kept = Mutex::new(Vec::new());
    let call = retrier.run_with(7, |number, _| {
        kept.lock().unwrap().push(number);
        async { Err::<(), _>(Error::new("Busy", "")) }
    });
    let _ = clock.block_on(call);
}

#[test]
fn a_delay_may_be_none_or_less_than_a_millisecond() {
    for (longest, expected) in [
        (Duration::ZERO, Duration::ZERO),
        (Duration::from_micros(300), Duration::from_micros(900)),
    ] {
        let clock = TestClock::new();
        let delays = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&delays);
        let retrier = builder(&clock).max_delay(longest);
        let retrier = retrier.observe(move |event: &Event<'_>| {
            if let Event::Retrying { delay, .. } = event {
                seen.lock().unwrap().push(*delay);
            }
        });
        let retrier = retrier.build().unwrap();
        let made = Cell::new(0);
        let call = retrier.run(|_| {
            made.set(made.get() + 1);
            async { Err::<(), _>(Error::new("Busy", "")) }
        });
        clock.block_on(call).unwrap_err();
        assert_eq!((made.get(), clock.elapsed()), (4, expected));
        assert_eq!(*delays.lock().unwrap(), [longest; 3]);
    }
}

#[test]
fn the_question_mark_takes_a_call_out_of_functions_with_any_error() {
    type Boxed = Box<dyn std::error::Error>;
    type Sendable = Box<dyn std::error::Error + Send + Sync>;

    fn call<E: crate::Describe + std::fmt::Debug>(
        clock: &TestClock,
        fails: impl Fn() -> Result<u32, E>,
    ) -> Result<u32, RetryError<E>> {
        let retrier = builder(clock).build().unwrap();
        clock.block_on(retrier.run(|_| std::future::ready(fails())))
    }
    fn boxed(clock: &TestClock) -> Result<u32, Boxed> {
        Ok(call::<Boxed>(clock, || Err(not_found().into()))?)
    }
    fn sendable(clock: &TestClock) -> Result<u32, Sendable> {
        Ok(call::<Sendable>(clock, || Err(not_found().into()))?)
    }
    fn own(clock: &TestClock) -> Result<u32, Sendable> {
        Ok(call(clock, || Err(Error::permanent("CardDeclined", "no")))?)
    }
    let clock = TestClock::new();
    let error = boxed(&clock).unwrap_err();
    assert_eq!(
        error.to_string(),
        "permanent error after 1 attempt: NotFound"
    );
    assert!(error.source().unwrap().is::<io::Error>());
    assert!(
        sendable(&clock)
            .unwrap_err()
            .source()
            .unwrap()
            .is::<io::Error>()
    );
    let error = own(&clock).unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "CardDeclined: no");
    // Described by a closure: the source is the description.
    let retrier = builder(&clock).build().unwrap();
    let call = retrier
        .run(async |_| Err::<(), _>("declined"))
        .describe(|text| Error::permanent("CardDeclined", *text));
    let error: Boxed = clock.block_on(call).unwrap_err().into();
    assert_eq!(
        error.source().unwrap().to_string(),
        "CardDeclined: declined"
    );
}

#[cfg(feature = "anyhow")]
#[test]
fn a_function_may_fail_with_an_error_of_anyhow() {
    use anyhow::Context;

    fn read(clock: &TestClock) -> anyhow::Result<String> {
        let retrier = builder(clock).build()?;
        let text = clock.block_on(retrier.run(async |_| {
            let text = std::fs::read_to_string("/no/such/file").context("cannot read")?;
            Ok::<_, anyhow::Error>(text)
        }))?;
        Ok(text)
    }
    let error = read(&TestClock::new()).unwrap_err();
    assert!(error.chain().any(|cause| cause.is::<io::Error>()));
    let text = format!("{error:#}");
    assert!(
        text.starts_with("permanent error after 1 attempt: NotFound: cannot read: No such file"),
        "{text}"
    );
}
