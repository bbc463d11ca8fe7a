//! Calls with a bulkhead, in virtual time.

use std::cell::RefCell;
use std::future::pending;
use std::task::{Context, Waker};
use std::time::Duration;

use backstop_core::failure::Error;
use tokio::join;

use super::*;
use crate::{Breaker, BreakerSettings, Clock, End, Linear, Retrier, RetrierBuilder, TestClock};

const SECOND: Duration = Duration::from_secs(1);

fn linear(clock: &TestClock, bulkhead: &Bulkhead) -> RetrierBuilder {
    let builder = Retrier::builder().clock(clock.clone()).bulkhead(bulkhead);
    builder.policy(Linear::default().base(SECOND).max_attempts(2))
}

#[test]
fn attempts_wait_for_a_place_first_come_first_served() {
    let clock = TestClock::new();
    let bulkhead = Bulkhead::new("payments", 2);
    let retrier = linear(&clock, &bulkhead).build().unwrap();
    let began = RefCell::new(Vec::new());
    let call = |name: &'static str| {
        let (clock, began) = (&clock, &began);
        retrier.run(move |_| async move {
            began.borrow_mut().push((name, clock.elapsed().as_secs()));
            clock.sleep(SECOND).await;
            Ok::<_, Error>(())
        })
    };
    let ended =
        clock.block_on(async { join!(call("a"), call("b"), call("c"), call("d"), call("e")) });
    ended.4.unwrap();
    let expected = [("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", 2)];
    assert_eq!(began.into_inner(), expected);
    assert_eq!(bulkhead.free(), 2);
}

#[test]
fn a_call_waits_for_a_place_until_its_deadline_or_not_at_all() {
    let clock = TestClock::new();
    let bulkhead = Bulkhead::new("payments", 1);
    let patient = linear(&clock, &bulkhead).build().unwrap();
    let hasty = linear(&clock, &bulkhead.clone().without_waiting());
    let hasty = hasty.build().unwrap();
    let mut held = Box::pin(patient.run(|_| pending::<Result<(), Error>>()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(held.as_mut().poll(&mut context).is_pending());

    for interrupts in [true, false] {
        let call = patient.run(|_| async { Ok::<_, Error>(()) });
        let call = call.deadline(2 * SECOND).interrupt_at_deadline(interrupts);
        let began = clock.elapsed();
        let error = clock.block_on(call).unwrap_err();
        assert_eq!((error.end(), error.attempts()), (End::DeadlineExceeded, 0));
        assert_eq!(clock.elapsed() - began, 2 * SECOND);
    }

    let call = hasty.run(|_| async { Ok::<_, Error>(()) });
    let error = clock.block_on(call).unwrap_err();
    assert_eq!((error.end(), error.attempts()), (End::BulkheadFull, 0));
    assert_eq!(
        error.to_string(),
        "the bulkhead `payments` is full, before the first attempt"
    );
    let described = Error::from(&error);
    assert_eq!(
        (&*described.code, described.status),
        ("BulkheadFull", Some(503))
    );

    // A call that is dropped gives its place back.
    drop(held);
    let call = hasty.run(|_| async { Ok::<_, Error>(()) });
    clock.block_on(call).unwrap();
}

#[test]
fn a_call_that_waits_for_its_next_attempt_has_no_place() {
    let clock = TestClock::new();
    let bulkhead = Bulkhead::new("payments", 1).without_waiting();
    let retrier = linear(&clock, &bulkhead).build().unwrap();
    let failing = retrier.run(|_| async { Err::<(), _>(Error::new("HTTP 503", "")) });
    let other = async {
        let half = SECOND / 2;
        clock.sleep(half).await;
        assert_eq!(bulkhead.free(), 1);
        let slow = retrier.run(|_| async {
            clock.sleep(SECOND).await;
            Ok::<_, Error>(())
        });
        slow.await.unwrap();
    };
    let (failed, ()) = clock.block_on(async { join!(failing, other) });
    let error = failed.unwrap_err();
    // The retry comes while the other call has the place.
    assert_eq!((error.end(), error.attempts()), (End::BulkheadFull, 1));
    assert_eq!(
        error.to_string(),
        "the bulkhead `payments` is full, after 1 attempt: HTTP 503"
    );
}

#[test]
fn nobody_waits_for_a_place_while_the_breaker_is_open() {
    let clock = TestClock::new();
    let bulkhead = Bulkhead::new("payments", 1);
    let settings = BreakerSettings::default()
        .minimum(1)
        .shortest_outage(Duration::ZERO);
    let breaker = Breaker::new("payments", settings);
    let retrier = linear(&clock, &bulkhead).breaker(&breaker).build().unwrap();
    let waiting = retrier.run(|_| async { Ok::<_, Error>(()) });
    let failing = retrier.run(|_| async {
        clock.sleep(SECOND).await;
        Err::<(), _>(Error::new("HTTP 503", ""))
    });
    let late = async {
        clock.sleep(2 * SECOND).await;
        let _place = bulkhead.enter().ok().unwrap();
        retrier.run(|_| async { Ok::<_, Error>(()) }).await
    };
    let (failed, waited, late) = clock.block_on(async { join!(failing, waiting, late) });
    for ended in [failed, waited, late] {
        assert_eq!(ended.unwrap_err().end(), End::BreakerOpen);
    }
    assert_eq!(clock.elapsed(), 2 * SECOND);
    assert_eq!(bulkhead.free(), 1);
}
