//! Calls whose parts misbehave: panics, endless texts, clocks that go backwards, limits at both ends.

use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use backstop_core::decision::{Action, Answer, ErrorClass, REASON_BYTES};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};
use backstop_core::policy::Policy;

use super::tests::{SECOND, busy, linear};
use crate::{
    Budget, BudgetSettings, Clock, Deadline, End, Event, FullJitter, Retrier, Sleep, TestClock,
};

/// Retries at once, forever.
#[derive(Debug)]
struct AtOnce;

impl Policy for AtOnce {
    fn name(&self) -> &str {
        "at-once"
    }

    fn answer(&self, _: &Failure) -> Answer {
        Answer::new(
            ErrorClass::Transient,
            Action::Retry {
                delay: Milliseconds(0),
            },
        )
    }
}

/// What panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Panics {
    Function,
    Future,
    Describe,
    Observer,
}

#[test]
fn a_panic_gives_back_what_was_not_sent_and_leaves_the_retrier_usable() {
    // In the second attempt, except for the observer, which sees the first failure.
    for (panics, left) in [
        (Panics::Function, 490.0),
        (Panics::Future, 490.0),
        (Panics::Describe, 490.0),
        (Panics::Observer, 500.0),
    ] {
        let clock = TestClock::new();
        let budget = Budget::aws_2_0();
        let is_calm = Arc::<AtomicBool>::default();
        let calm = Arc::clone(&is_calm);
        let retrier = linear(&clock)
            .budget(&budget)
            .observe(move |event: &Event<'_>| {
                let is_retrying = matches!(event, Event::Retrying { .. });
                let is_calm = calm.load(Ordering::Relaxed);
                assert!(is_calm || panics != Panics::Observer || !is_retrying);
            })
            .build()
            .unwrap();
        let second = Cell::new(false);
        let call = retrier.run(|attempt| {
            second.set(attempt.is_retry());
            assert!(!attempt.is_retry() || panics != Panics::Function);
            async move {
                assert!(!attempt.is_retry() || panics != Panics::Future);
                Err::<(), _>(busy())
            }
        });
        let call = call.describe(|error: &Error| {
            assert!(!second.get() || panics != Panics::Describe);
            error.clone()
        });
        let ended = catch_unwind(AssertUnwindSafe(|| clock.block_on(call)));
        assert!(ended.is_err(), "{panics:?}");
        assert_eq!(budget.left(), left, "{panics:?}");
        assert_eq!(clock.sleeping(), 0);
        #[cfg(feature = "aws")]
        assert!(!crate::inside::is_inside());
        is_calm.store(true, Ordering::Relaxed);
        let call = retrier.run(|_| ready(Ok::<_, Error>(())));
        clock.block_on(call).unwrap();
    }
}

#[test]
fn a_retrier_inside_a_retrier_shares_its_budget() {
    let clock = TestClock::new();
    let settings = BudgetSettings::AWS_2_0.capacity(50).floor_per_second(0.0);
    let budget = Budget::new("shared", settings);
    let outer = linear(&clock).budget(&budget).build().unwrap();
    let inner = linear(&clock)
        .budget(&budget)
        .max_attempts(2)
        .build()
        .unwrap();
    let made = Cell::new(0);
    let call = outer.run(|_| async {
        let call = inner.run(|_| async {
            made.set(made.get() + 1);
            Err::<(), _>(busy())
        });
        call.await.map_err(|error| error.into_inner().unwrap())
    });
    let error = clock.block_on(call).unwrap_err();
    assert_eq!(error.end(), End::BudgetExhausted);
    // Five retries: of the inner one, of the outer one, and so on.
    assert_eq!((made.get(), error.attempts()), (6, 3));
    assert_eq!(budget.left(), 0.0);
}

#[test]
fn the_text_of_an_end_is_one_line_of_a_bounded_length_whatever_the_error() {
    let code = "first\nsecond\u{1b}[31m ".repeat(100_000);
    let limited = |clock: &TestClock| linear(clock).max_attempts(1);
    let own = |clock: &TestClock| linear(clock).policy(FullJitter::default().max_attempts(1));
    let small = Budget::new(
        "none",
        BudgetSettings::AWS_2_0.capacity(0).floor_per_second(0.0),
    );
    let refused = |clock: &TestClock| linear(clock).budget(&small);
    let clock = TestClock::new();
    for builder in [limited(&clock), own(&clock), refused(&clock)] {
        let retrier = builder.build().unwrap();
        let call = retrier.run(|_| ready(Err::<(), _>(Error::new(code.clone(), code.clone()))));
        let error = clock.block_on(call).unwrap_err();
        let text = error.to_string();
        assert!(text.len() < 2 * REASON_BYTES, "{}", text.len());
        assert!(!text.chars().any(char::is_control), "{text}");
        let decision = error.decision().unwrap();
        if let Action::DeadLetter { reason } = &decision.action {
            assert!(reason.len() <= REASON_BYTES, "{}", reason.len());
        }
    }
}

/// A clock that goes back by a second whenever it is read, and never waits.
#[derive(Debug)]
struct Backwards {
    start: Instant,
    reads: AtomicU64,
}

impl Backwards {
    fn new() -> Self {
        Self {
            start: TestClock::new().now() + 1_000_000 * SECOND,
            reads: AtomicU64::new(0),
        }
    }

    fn back(&self) -> Duration {
        Duration::from_secs(self.reads.fetch_add(1, Ordering::Relaxed))
    }
}

impl Clock for Backwards {
    fn now(&self) -> Instant {
        self.start - self.back()
    }

    fn time(&self) -> Timestamp {
        Timestamp(1_000_u64.saturating_sub(self.back().as_secs()))
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(ready(()))
    }
}

#[test]
fn a_clock_that_goes_backwards_is_survived() {
    let settings = BudgetSettings::AWS_2_0.capacity(30).refill_per_second(1.0);
    for deadline in [
        Deadline::from(60 * SECOND),
        Deadline::from(Timestamp(60_000)),
    ] {
        let budget = Budget::new("backwards", settings);
        let retrier = Retrier::builder()
            .clock(Backwards::new())
            .policy(FullJitter::default())
            .budget(&budget)
            .build()
            .unwrap();
        let call = retrier.run(|_| ready(Err::<(), _>(busy())));
        let error = TestClock::new().block_on(call.deadline(deadline));
        // Three retries with tokens and one from the floor.
        let error = error.unwrap_err();
        assert_eq!((error.end(), error.attempts()), (End::BudgetExhausted, 5));
    }
}

#[test]
fn limits_may_be_as_large_or_as_small_as_their_types_allow() {
    let clock = TestClock::new();
    let longest = linear(&clock)
        .max_attempts(u32::MAX)
        .max_delay(Duration::MAX)
        .attempt_timeout(Duration::MAX)
        .min_attempt_time(Duration::MAX)
        .build()
        .unwrap();
    let call = longest.run(|attempt| async move {
        match attempt.number() {
            9 => Ok(()),
            _ => Err(busy()),
        }
    });
    clock.block_on(call.deadline(Duration::MAX)).unwrap();
    assert_eq!(clock.elapsed(), 36 * SECOND);

    // As long as an instant allows: a timer far in the future.
    let clock = TestClock::new();
    let centuries = Duration::from_secs(u64::from(u32::MAX) * 1_000);
    let retrier = linear(&clock).attempt_timeout(centuries).build().unwrap();
    let call = retrier.run(|_| async {
        clock.sleep_until(clock.now() + SECOND).await;
        Ok::<_, Error>(())
    });
    clock.block_on(call.deadline(2 * centuries)).unwrap();
    assert_eq!(clock.elapsed(), SECOND);

    let none = linear(&clock)
        .max_attempts(0)
        .max_delay(Duration::ZERO)
        .attempt_timeout(Duration::ZERO)
        .build()
        .unwrap();
    let call = none.run(|_| pending::<Result<(), Error>>());
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::GaveUp, 1));
    // No time at all: an attempt that succeeds at its first poll is in time.
    let call = none.run(|_| ready(Ok::<_, Error>(())));
    clock.block_on(call).unwrap();
    for invalid in [Duration::MAX, Duration::ZERO] {
        for policy in [
            FullJitter::default().base(invalid),
            FullJitter::default().cap(invalid),
        ] {
            assert!(Retrier::builder().policy(policy).build().is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tokios_timers_take_limits_of_any_length() {
    let centuries = Duration::from_secs(u64::from(u32::MAX) * 1_000);
    for limit in [centuries, Duration::MAX, Duration::from_secs(u64::MAX / 4)] {
        let retrier = Retrier::builder().attempt_timeout(limit).build().unwrap();
        let call = retrier.run(|attempt| async move {
            tokio::time::sleep(SECOND).await;
            match attempt.number() {
                2 => Ok(()),
                _ => Err(busy()),
            }
        });
        call.deadline(limit).await.unwrap();
    }
}

/// A clock whose waits are over at once, as those of a busy executor.
#[derive(Debug)]
struct Timeless(TestClock);

impl Clock for Timeless {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn time(&self) -> Timestamp {
        self.0.time()
    }

    fn sleep_until(&self, _: Instant) -> Sleep {
        Box::pin(ready(()))
    }
}

#[test]
fn retries_without_a_delay_leave_other_tasks_their_turn() {
    let clock = TestClock::new();
    let retrier = Retrier::builder().clock(Timeless(clock.clone()));
    let retrier = retrier.policy(AtOnce).build().unwrap();
    let made = Cell::new(0);
    let mut call = pin!(
        retrier
            .run(|_| {
                made.set(made.get() + 1);
                assert!(made.get() < 100, "no other task gets its turn");
                ready(Err::<(), _>(busy()))
            })
            .deadline(SECOND)
    );
    let mut context = Context::from_waker(Waker::noop());
    for attempt in 1..10 {
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!(made.get(), attempt);
    }
    // And the deadline ends them.
    clock.advance(SECOND);
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else {
        panic!("not ended");
    };
    assert_eq!(error.end(), End::DeadlineExceeded);
}

#[tokio::test]
async fn retries_without_a_delay_can_be_cancelled_from_outside() {
    let retrier = Retrier::builder().policy(AtOnce).build().unwrap();
    let call = retrier.run(|_| ready(Err::<(), _>(busy())));
    let limit = Duration::from_millis(20);
    assert!(tokio::time::timeout(limit, call).await.is_err());
}

/// Always ready, so that it uses up what tokio lets a task do in one poll, timers included.
#[tokio::test]
async fn an_attempt_that_leaves_timers_no_turn_is_cut_short() {
    let limit = Duration::from_millis(20);
    let greedy = |_| async {
        loop {
            tokio::task::consume_budget().await;
        }
        #[expect(unreachable_code, reason = "the type of the function")]
        Ok::<(), Error>(())
    };
    let retrier = Retrier::builder().max_attempts(1).build().unwrap();
    let call = retrier.run(greedy).attempt_timeout(limit);
    let error = tokio::time::timeout(SECOND, call).await.unwrap();
    assert_eq!(error.unwrap_err().end(), End::GaveUp);
    let call = retrier.run(greedy).deadline(limit);
    let error = tokio::time::timeout(SECOND, call).await.unwrap();
    assert_eq!(error.unwrap_err().end(), End::DeadlineExceeded);
}

/// A waker whose end needs the clock, as that of a task which owns a timer.
struct NeedsClock(TestClock);

impl Wake for NeedsClock {
    fn wake(self: Arc<Self>) {}
}

impl Drop for NeedsClock {
    fn drop(&mut self) {
        self.0.elapsed();
    }
}

#[test]
fn a_waker_may_use_the_clock_when_it_is_dropped() {
    let clock = TestClock::new();
    let waker = || Waker::from(Arc::new(NeedsClock(clock.clone())));
    let mut sleep = clock.sleep_until(clock.now() + SECOND);
    for _ in 0..2 {
        let waker = waker();
        let mut context = Context::from_waker(&waker);
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    drop(sleep);
}

#[test]
fn an_attempt_that_is_always_busy_is_cut_short() {
    let clock = TestClock::new();
    let retrier = linear(&clock).max_attempts(3).build().unwrap();
    // It wakes itself again and again.
    let busy_forever = |_| {
        poll_fn(|context: &mut Context<'_>| {
            clock.advance(Duration::from_millis(1));
            context.waker().wake_by_ref();
            Poll::<Result<(), Error>>::Pending
        })
    };
    let call = retrier.run(busy_forever).attempt_timeout(SECOND);
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::GaveUp, 3));
}
