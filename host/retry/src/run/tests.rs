//! Calls in virtual time: attempts, delays, deadlines, ends.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use backstop_core::decision::ErrorClass;
use backstop_core::failure::{Error, Milliseconds};

use crate::{
    Budget, BudgetSettings, Clock, End, Linear, Retrier, RetrierBuilder, RetryError, TestClock,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Retries after 1 s, 2 s, 3 s and so on.
pub(super) fn linear(clock: &TestClock) -> RetrierBuilder {
    Retrier::builder()
        .clock(clock.clone())
        .policy(Linear::default().base(SECOND))
}

pub(super) fn busy() -> Error {
    Error::new("HTTP 503", "busy")
}

/// The times at which attempts of a function start that always fails, and how the call ends.
pub(super) fn failing(
    clock: &TestClock,
    retrier: &Retrier,
    limit: Option<Duration>,
) -> (Vec<u64>, RetryError<Error>) {
    let times = RefCell::new(Vec::new());
    let mut call = retrier.run(|_| async {
        times.borrow_mut().push(clock.elapsed().as_secs());
        Err::<(), _>(busy())
    });
    if let Some(limit) = limit {
        call = call.deadline(limit);
    }
    let error = clock.block_on(call).unwrap_err();
    (times.into_inner(), error)
}

#[test]
fn the_function_is_retried_until_it_succeeds() {
    let clock = TestClock::new();
    let retrier = linear(&clock).build().unwrap();
    let seen = RefCell::new(Vec::new());
    let call = retrier.run(|attempt| {
        seen.borrow_mut()
            .push((attempt.number(), attempt.is_retry()));
        async move {
            match attempt.number() {
                3 => Ok("done"),
                _ => Err(busy()),
            }
        }
    });
    assert_eq!(clock.block_on(call).unwrap(), "done");
    assert_eq!(seen.into_inner(), [(1, false), (2, true), (3, true)]);
    assert_eq!(clock.elapsed(), 3 * SECOND);
}

#[test]
fn the_limit_of_a_policy_is_exact() {
    for most in 1..=4 {
        let clock = TestClock::new();
        let policy = Linear::default().base(SECOND).max_attempts(most);
        let retrier = linear(&clock).policy(policy).build().unwrap();
        let (times, error) = failing(&clock, &retrier, None);
        assert_eq!(times.len(), most as usize);
        assert_eq!(error.end(), End::GaveUp);
        assert_eq!(error.attempts(), most);
        assert_eq!(error.error(), Some(&busy()));
        assert_eq!(error.time_left(), None);
        assert_eq!(error.into_inner(), Some(busy()));
    }
}

#[test]
fn the_retriers_limit_of_attempts_is_exact_and_named() {
    let clock = TestClock::new();
    let retrier = linear(&clock).max_attempts(2).build().unwrap();
    let (times, error) = failing(&clock, &retrier, None);
    assert_eq!(times, [0, 1]);
    assert_eq!(
        error.to_string(),
        "gave up after 2 attempts: the retrier's max-attempts of 2 reached: HTTP 503"
    );
    let none = linear(&clock).max_attempts(0).build().unwrap();
    assert_eq!(failing(&clock, &none, None).0.len(), 1);
}

#[test]
fn a_permanent_error_ends_the_call_at_once() {
    let clock = TestClock::new();
    let retrier = linear(&clock).build().unwrap();
    let call = retrier.run(|_| async { Err::<(), _>(Error::new("ValidationException", "no")) });
    let error = clock.block_on(call).unwrap_err();
    assert_eq!(error.end(), End::Permanent);
    assert_eq!(
        error.to_string(),
        "permanent error after 1 attempt: ValidationException"
    );
    let decision = error.decision().unwrap();
    assert_eq!(decision.class, ErrorClass::Permanent);
}

#[test]
fn no_wait_begins_that_cannot_end_before_the_deadline() {
    // Attempts at 0, 1, 3 and 6 s.
    for (limit, times, left) in [
        (1, vec![0], 1),
        (2, vec![0, 1], 1),
        (3, vec![0, 1], 2),
        (4, vec![0, 1, 3], 1),
        (6, vec![0, 1, 3], 3),
    ] {
        let clock = TestClock::new();
        let retrier = linear(&clock).build().unwrap();
        let (started, error) = failing(&clock, &retrier, Some(limit * SECOND));
        assert_eq!(started, times, "{limit}");
        assert_eq!(error.end(), End::DeadlineExceeded);
        assert_eq!(error.time_left(), Some(left * SECOND));
        // It ends at once, and not at the deadline.
        assert_eq!(clock.elapsed().as_secs(), *times.last().unwrap());
    }
    let clock = TestClock::new();
    let retrier = linear(&clock).build().unwrap();
    let (_, error) = failing(&clock, &retrier, Some(4 * SECOND));
    assert_eq!(
        error.to_string(),
        "the deadline ended the call after 3 attempts, with 1s left and a delay of 3s: HTTP 503"
    );
}

#[test]
fn an_attempt_needs_its_minimum_of_time() {
    for (minimum, attempts) in [(0, 3), (1, 3), (2, 2), (4, 1), (5, 0)] {
        let clock = TestClock::new();
        let retrier = linear(&clock)
            .min_attempt_time(minimum * SECOND)
            .build()
            .unwrap();
        let (times, error) = failing(&clock, &retrier, Some(4 * SECOND));
        assert_eq!(times.len(), attempts, "{minimum}");
        assert_eq!(error.attempts() as usize, attempts);
        assert_eq!(error.end(), End::DeadlineExceeded);
        assert_eq!(error.into_inner().is_some(), attempts > 0);
    }
}

#[test]
fn no_attempt_is_made_after_the_deadline() {
    let clock = TestClock::new();
    let retrier = linear(&clock).build().unwrap();
    let (times, error) = failing(&clock, &retrier, Some(Duration::ZERO));
    assert!(times.is_empty());
    assert_eq!(
        error.to_string(),
        "the deadline had passed before the first attempt"
    );
    assert!(error.error().is_none() && error.decision().is_none());
}

#[test]
fn the_deadline_cuts_an_attempt_short_unless_told_otherwise() {
    let clock = TestClock::new();
    let retrier = linear(&clock).build().unwrap();
    let call = retrier.run(|attempt| async move {
        match attempt.number() {
            1 => Err::<(), _>(busy()),
            _ => pending().await,
        }
    });
    let error = clock.block_on(call.deadline(5 * SECOND)).unwrap_err();
    assert_eq!(clock.elapsed(), 5 * SECOND);
    assert_eq!(
        error.to_string(),
        "the deadline ended the call after 2 attempts: Timeout"
    );
    assert_eq!(error.time_left(), Some(Duration::ZERO));
    // The function's own error is inside, although it is not the last failure.
    assert_eq!(error.into_inner(), Some(busy()));

    let slow = |_| async {
        clock.sleep_until(clock.now() + 3 * SECOND).await;
        Ok::<_, Error>(())
    };
    let call = retrier.run(slow).deadline(SECOND);
    assert!(clock.block_on(call).is_err());
    let call = retrier.run(slow).deadline(SECOND);
    let result = clock.block_on(call.interrupt_at_deadline(false));
    assert!(result.is_ok());
}

#[test]
fn an_attempt_that_takes_too_long_is_a_failure_that_the_policy_decides_about() {
    let clock = TestClock::new();
    let retrier = linear(&clock).attempt_timeout(SECOND).build().unwrap();
    let call = retrier.run(|attempt| async move {
        match attempt.number() {
            3 => Ok(()),
            _ => pending::<Result<(), Error>>().await,
        }
    });
    clock.block_on(call).unwrap();
    // 1 s, delay 1 s, 1 s, delay 2 s.
    assert_eq!(clock.elapsed(), 5 * SECOND);

    let once = linear(&clock)
        .attempt_timeout(SECOND)
        .max_attempts(1)
        .build()
        .unwrap();
    let call = once.run(|_| pending::<Result<(), Error>>());
    let error = clock.block_on(call).unwrap_err();
    let description = error.description().unwrap();
    assert_eq!(description.code, "Timeout");
    assert_eq!(description.message, "the attempt took longer than 1s");
    assert_eq!(error.into_inner(), None);
}

#[test]
fn the_earlier_of_timeout_and_deadline_cuts_an_attempt_short() {
    for (timeout, limit, end, elapsed) in [
        (2, 9, End::GaveUp, 2),
        (9, 2, End::DeadlineExceeded, 2),
        (2, 2, End::DeadlineExceeded, 2),
    ] {
        let clock = TestClock::new();
        let retrier = linear(&clock).max_attempts(1).build().unwrap();
        let call = retrier
            .run(|_| pending::<Result<(), Error>>())
            .attempt_timeout(timeout * SECOND)
            .deadline(limit * SECOND);
        let error = clock.block_on(call).unwrap_err();
        assert_eq!((error.end(), clock.elapsed()), (end, elapsed * SECOND));
    }
}

#[test]
fn retry_after_is_respected_up_to_the_longest_delay() {
    let asks = |milliseconds| busy().retry_after(Milliseconds(milliseconds));
    let clock = TestClock::new();
    let retrier = linear(&clock).max_delay(10 * SECOND).build().unwrap();
    let call = retrier.run(|attempt| async move {
        match attempt.number() {
            1 => Err(asks(4_000)),
            2 => Err(asks(3_600_000)),
            _ => Ok(()),
        }
    });
    clock.block_on(call).unwrap();
    assert_eq!(clock.elapsed(), 14 * SECOND);
}

#[test]
fn a_service_holds_a_program_for_a_minute_unless_it_allows_more() {
    const TEN_DAYS: Duration = Duration::from_secs(10 * 86_400);
    let hour = 3_600 * SECOND;
    for (max_delay, max_retry_after, expected) in [
        (None, None, 60 * SECOND),
        (Some(hour), None, hour),
        (None, Some(hour), hour),
        (Some(hour), Some(5 * SECOND), 5 * SECOND),
        (Some(5 * SECOND), Some(hour), 5 * SECOND),
        (None, Some(TEN_DAYS), TEN_DAYS),
    ] {
        let clock = TestClock::new();
        let mut builder = linear(&clock);
        if let Some(longest) = max_delay {
            builder = builder.max_delay(longest);
        }
        if let Some(longest) = max_retry_after {
            builder = builder.max_retry_after(longest);
        }
        let call = builder.build().unwrap();
        let call = call.run(|attempt| async move {
            let asks = busy().retry_after(Milliseconds::from_duration(TEN_DAYS));
            (attempt.number() > 1).then_some(()).ok_or(asks)
        });
        clock.block_on(call).unwrap();
        assert_eq!(
            clock.elapsed(),
            expected,
            "{max_delay:?} {max_retry_after:?}"
        );
    }
}

#[test]
fn a_budget_ends_a_call_before_its_delay() {
    let clock = TestClock::new();
    let budget = Budget::new(
        "b",
        BudgetSettings::AWS_2_0.capacity(20).floor_per_second(0.0),
    );
    let retrier = linear(&clock).budget(&budget).build().unwrap();
    let (times, error) = failing(&clock, &retrier, None);
    assert_eq!(times, [0, 1, 3]);
    assert_eq!(error.end(), End::BudgetExhausted);
    assert_eq!(
        error.to_string(),
        "the retry budget is exhausted after 3 attempts: HTTP 503"
    );
    assert_eq!((budget.left(), clock.elapsed()), (0.0, 3 * SECOND));
    // A success at the first attempt adds a token, one at a retry gives its cost back.
    let call = retrier.run(|_| async { Ok::<_, Error>(()) });
    clock.block_on(call).unwrap();
    assert_eq!(budget.left(), 1.0);
}

#[test]
fn a_dropped_call_gives_back_what_it_has_not_sent() {
    let clock = TestClock::new();
    let budget = Budget::aws_2_0();
    let retrier = linear(&clock).budget(&budget).build().unwrap();
    let dropped = Cell::new(false);
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut call = pin!(retrier.run(|_| async { Err::<(), _>(busy()) }));
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!((budget.left(), clock.sleeping()), (490.0, 1));
    }
    assert_eq!((budget.left(), clock.sleeping()), (500.0, 0));
    {
        let guard = OnDrop(&dropped);
        let mut call = pin!(retrier.run(|attempt| {
            let guard = &guard;
            async move {
                let _guard = guard;
                match attempt.number() {
                    1 => Err::<(), _>(busy()),
                    _ => pending().await,
                }
            }
        }));
        assert!(call.as_mut().poll(&mut context).is_pending());
        clock.advance(SECOND);
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    // The request was sent.
    assert_eq!((budget.left(), clock.sleeping()), (490.0, 0));
    assert!(dropped.get());
}

struct OnDrop<'a>(&'a Cell<bool>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[tokio::test(start_paused = true)]
async fn tokios_paused_time_is_the_default_clocks_time() {
    let retrier = Retrier::builder()
        .policy(Linear::default().base(SECOND).max_attempts(3))
        .build()
        .unwrap();
    let started = tokio::time::Instant::now();
    let call = retrier.run(|_| async { Err::<(), _>(busy()) });
    assert_eq!(call.await.unwrap_err().end(), End::GaveUp);
    assert_eq!(started.elapsed(), 3 * SECOND);
    // As the deadline of tokio.
    let deadline = tokio::time::Instant::now() + SECOND;
    let call = retrier.run(|_| pending::<Result<(), Error>>());
    let error = call.deadline(deadline).await.unwrap_err();
    assert_eq!(error.end(), End::DeadlineExceeded);
    assert_eq!(tokio::time::Instant::now(), deadline);
}

#[test]
fn a_call_can_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let retrier = Retrier::builder().build().unwrap();
    let call = retrier.run(|_| async { Ok::<_, Error>(()) });
    is_send(&call);
    is_send(&call.describe(Error::clone));
}
