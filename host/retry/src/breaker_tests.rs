//! Calls with a breaker, in virtual time.

use std::future::pending;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::decision::Answer;
use backstop_core::failure::{Error, Failure, Milliseconds};
use backstop_core::policy::Policy;

use super::*;
use crate::{Budget, BudgetSettings, End, Linear, Retrier, RetrierBuilder, RetryError, TestClock};

const SECOND: Duration = Duration::from_secs(1);

/// Opens after three failures in 2 s or more, for 10 to 20 s.
fn breaker() -> Breaker {
    let settings = BreakerSettings::default()
        .minimum(3)
        .shortest_outage(2 * SECOND)
        .pauses(Backoff::milliseconds(20_000, 60_000));
    Breaker::new("payments", settings)
}

/// Attempts at 0, 1, 3, 6 and 10 s.
fn linear(clock: &TestClock, breaker: &Breaker) -> RetrierBuilder {
    let policy = Linear::default().base(SECOND).max_attempts(5);
    let builder = Retrier::builder().clock(clock.clone()).breaker(breaker);
    builder.policy(policy)
}

fn busy() -> Error {
    Error::new("HTTP 503", "busy")
}

fn fail(clock: &TestClock, retrier: &Retrier, error: &Error) -> RetryError<Error> {
    let call = retrier.run(|_| async { Err::<(), _>(error.clone()) });
    clock.block_on(call).unwrap_err()
}

fn succeed(clock: &TestClock, retrier: &Retrier) -> Result<(), RetryError<Error>> {
    clock.block_on(retrier.run(|_| async { Ok(()) }))
}

fn is_open(breaker: &Breaker) -> bool {
    matches!(breaker.status().state, State::Open { .. })
}

/// Polls a call once.
fn poll<F: Future>(call: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    call.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn an_open_breaker_ends_calls_at_once_until_a_probe_succeeds() {
    let (clock, breaker) = (TestClock::new(), breaker());
    let retrier = linear(&clock, &breaker).build().unwrap();
    // The third failure opens it, and the retry would come while it is open.
    let error = fail(&clock, &retrier, &busy());
    assert_eq!((error.end(), error.attempts()), (End::BreakerOpen, 3));
    assert_eq!(clock.elapsed(), 3 * SECOND);
    assert_eq!(error.ended().refused_by(), Some("payments"));
    let until = error.ended().next_probe().unwrap();
    assert!((10 * SECOND..=20 * SECOND).contains(&until), "{until:?}");
    let (text, time) = (error.to_string(), Milliseconds::from_duration(until));
    assert_eq!(
        text,
        format!(
            "the breaker `payments` is open, with the next probe in {time}, after 3 attempts: HTTP 503"
        )
    );
    assert_eq!(error.into_inner(), Some(busy()));

    // The first attempt of a call is refused too, by each retrier that shares it.
    let other = linear(&clock, &breaker.clone()).build().unwrap();
    let error = succeed(&clock, &other).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::BreakerOpen, 0));
    let expected = format!(
        "the breaker `payments` is open, with the next probe in {time}, before the first attempt"
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.into_inner(), None);

    // One probe at a time.
    clock.advance(until);
    let mut probe = Box::pin(retrier.run(|_| pending::<Result<(), Error>>()));
    assert!(poll(probe.as_mut()).is_pending());
    let error = succeed(&clock, &retrier).unwrap_err();
    assert_eq!(error.ended().next_probe(), None);
    assert_eq!(
        error.to_string(),
        "the breaker `payments` lets only a few attempts through, before the first attempt"
    );
    // A call that is dropped proves nothing.
    drop(probe);
    succeed(&clock, &retrier).unwrap();
    assert_eq!(breaker.status().state, State::Growing { limit: 2 });
}

#[test]
fn a_retry_that_the_breaker_refuses_after_its_wait_gives_its_tokens_back() {
    let (clock, breaker) = (TestClock::new(), breaker());
    let budget = Budget::new("b", BudgetSettings::AWS_2_0);
    let retrier = linear(&clock, &breaker).budget(&budget).build().unwrap();
    let mut call = pin!(retrier.run(|_| async { Err::<(), _>(busy()) }));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(budget.left(), 490.0);
    // Another call opens it in the meantime.
    let settings = linear(&clock, &breaker).build().unwrap();
    for _ in 0..2 {
        let mut failing = pin!(settings.run(|_| async { Err::<(), _>(busy()) }));
        clock.advance(SECOND);
        assert!(poll(failing.as_mut()).is_pending() || is_open(&breaker));
    }
    assert!(is_open(&breaker));
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::BreakerOpen, 1));
    assert_eq!(budget.left(), 500.0);
}

#[test]
fn what_the_policy_calls_transient_or_throttled_counts_and_nothing_else() {
    let timeout = 3 * SECOND;
    for (name, opens) in [
        ("HTTP 503", true),
        ("Throttling", true),
        ("AccessDenied", false),
        ("attempt timeout", true),
        ("deadline", false),
        ("dropped", false),
        ("not ready", false),
    ] {
        let (clock, breaker) = (TestClock::new(), breaker());
        let retrier = linear(&clock, &breaker).max_attempts(1).build().unwrap();
        for _ in 0..4 {
            let call = retrier.run(|_| async {
                match name {
                    "not ready" => Ok(()),
                    "attempt timeout" | "deadline" | "dropped" => pending().await,
                    code => Err(Error::new(code, "")),
                }
            });
            match name {
                "attempt timeout" => drop(clock.block_on(call.attempt_timeout(timeout))),
                "deadline" => drop(clock.block_on(call.deadline(timeout))),
                "not ready" => drop(clock.block_on(call.retry_if_ok(|()| true))),
                "dropped" => assert!(poll(pin!(call)).is_pending()),
                _ => drop(clock.block_on(call)),
            }
            clock.advance(SECOND);
        }
        assert_eq!(is_open(&breaker), opens, "{name}");
        assert_eq!(breaker.status().in_flight, 0, "{name}");
    }
}

#[test]
fn a_success_between_failures_keeps_it_closed() {
    let (clock, breaker) = (TestClock::new(), breaker());
    let retrier = linear(&clock, &breaker).max_attempts(1).build().unwrap();
    for _ in 0..10 {
        fail(&clock, &retrier, &busy());
        clock.advance(SECOND);
        fail(&clock, &retrier, &busy());
        clock.advance(SECOND);
        succeed(&clock, &retrier).unwrap();
    }
    assert!(!is_open(&breaker));
}

#[test]
fn the_time_that_a_service_asks_for_is_that_of_the_next_probe() {
    let (clock, breaker) = (TestClock::new(), breaker());
    let retrier = linear(&clock, &breaker).max_attempts(1).build().unwrap();
    let asked = busy().retry_after(Milliseconds(200_000));
    for _ in 0..3 {
        fail(&clock, &retrier, &asked);
        clock.advance(SECOND);
    }
    let error = succeed(&clock, &retrier).unwrap_err();
    assert_eq!(error.ended().next_probe(), Some(199 * SECOND));
}

#[test]
fn a_refused_call_is_an_error_that_a_queue_retries_when_the_next_probe_comes() {
    let (clock, breaker) = (TestClock::new(), breaker());
    let retrier = linear(&clock, &breaker).build().unwrap();
    let last = Error::from(fail(&clock, &retrier, &busy()));
    assert_eq!(last.code, "HTTP 503");
    let refused = Error::from(succeed(&clock, &retrier).unwrap_err());
    assert_eq!((&*refused.code, refused.status), ("BreakerOpen", Some(503)));
    assert!(refused.retry_after.unwrap() >= Milliseconds(10_000));
    assert_eq!(refused.retry_after, last.retry_after);
    assert!(refused.message.contains("`payments` is open"), "{refused}");
}

/// Says of every failure that what is called is down for 40 s.
#[derive(Debug)]
struct SaysDown(Linear);

impl Policy for SaysDown {
    fn name(&self) -> &str {
        "says-down"
    }

    fn answer(&self, failure: &Failure) -> Answer {
        Answer {
            down_for: Some(Milliseconds(40_000)),
            ..self.0.answer(failure)
        }
    }
}

#[test]
fn a_policy_that_says_how_long_something_is_down_opens_it_with_one_failure() {
    let (clock, breaker) = (TestClock::new(), breaker());
    let policy = SaysDown(Linear::default().base(SECOND));
    let retrier = linear(&clock, &breaker).policy(policy).build().unwrap();
    let error = fail(&clock, &retrier, &busy());
    // Its retry would come while the breaker is open.
    assert!(matches!(error, RetryError::BreakerOpen(_)), "{error}");
    assert_eq!(error.attempts(), 1);
    assert_eq!(error.ended().next_probe(), Some(40 * SECOND));
    clock.advance(39 * SECOND);
    let error = succeed(&clock, &retrier).unwrap_err();
    assert_eq!(error.attempts(), 0);
    clock.advance(SECOND);
    succeed(&clock, &retrier).unwrap();
    assert!(!is_open(&breaker));
}
