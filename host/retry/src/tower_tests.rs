//! The layer and the policy, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::tower::retry::Retry;
use ::tower::{ServiceExt, service_fn};
use backstop_core::policy::Linear;

use super::*;
use crate::{Backoff, Breaker, BreakerSettings, Budget, End, RetrierBuilder, TestClock};

const SECOND: Duration = Duration::from_secs(1);

fn linear(clock: &TestClock) -> RetrierBuilder {
    Retrier::builder()
        .clock(clock.clone())
        .policy(Linear::default().base(SECOND).max_attempts(4))
}

/// A service that fails until this attempt, and counts the attempts.
fn until(attempt: u32) -> (Arc<AtomicU32>, impl Flaky) {
    let attempts = Arc::<AtomicU32>::default();
    let counted = Arc::clone(&attempts);
    let service = service_fn(move |request: &'static str| {
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            if number < attempt {
                Err(Error::new("HTTP 503", "busy"))
            } else {
                Ok(request)
            }
        }
    });
    (attempts, service)
}

trait Flaky:
    Service<&'static str, Response = &'static str, Error = Error, Future: Send> + Clone + Send + 'static
{
}

impl<S> Flaky for S where
    S: Service<&'static str, Response = &'static str, Error = Error, Future: Send>
        + Clone
        + Send
        + 'static
{
}

#[test]
fn the_layer_retries_and_tells_how_a_call_ended() {
    for (succeeds_at, deadline, expected, made) in [
        (3, None, Ok("r"), 3),
        (9, None, Err(End::GaveUp), 4),
        (9, Some(2 * SECOND), Err(End::DeadlineExceeded), 2),
    ] {
        let clock = TestClock::new();
        let (attempts, service) = until(succeeds_at);
        let mut layer = RetryLayer::new(linear(&clock).build().unwrap());
        if let Some(deadline) = deadline {
            layer = layer.deadline(deadline);
        }
        let result = clock.block_on(layer.layer(service).oneshot("r"));
        assert_eq!(result.map_err(|error| error.end()), expected);
        assert_eq!(attempts.load(Ordering::Relaxed), made);
    }
}

#[test]
fn errors_of_a_service_may_be_described_with_a_closure() {
    let clock = TestClock::new();
    let (attempts, service) = until(9);
    let layer = RetryLayer::new(linear(&clock).build().unwrap());
    let layer = layer.describe(|_: &Error| Error::new("ValidationException", ""));
    let error = clock.block_on(layer.layer(service).oneshot("r"));
    assert_eq!(error.unwrap_err().end(), End::Permanent);
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}

#[test]
fn the_policy_of_towers_retry_decides_alike_and_keeps_the_error() {
    for (succeeds_at, deadline, expected, made, left) in [
        (1, None, Ok("r"), 1, 500.0),
        (3, None, Ok("r"), 3, 490.0),
        (9, None, Err("HTTP 503"), 4, 470.0),
        (9, Some(2 * SECOND), Err("HTTP 503"), 2, 490.0),
    ] {
        let clock = TestClock::new();
        let budget = Budget::aws_2_0();
        let (attempts, service) = until(succeeds_at);
        let retrier = linear(&clock).budget(&budget).build().unwrap();
        let mut policy = RetryPolicy::new(retrier);
        if let Some(deadline) = deadline {
            policy = policy.deadline(deadline);
        }
        let service = Retry::new(policy, service);
        // The service's own time does not count for a request.
        clock.advance(10 * SECOND);
        let result = clock.block_on(service.oneshot("r"));
        assert_eq!(
            result.map_err(|error| error.code),
            expected.map_err(str::to_owned)
        );
        assert_eq!(attempts.load(Ordering::Relaxed), made);
        assert_eq!(budget.left(), left);
    }
}

#[test]
fn a_dropped_request_gives_back_what_it_has_not_sent() {
    let clock = TestClock::new();
    let budget = Budget::aws_2_0();
    let (_, service) = until(9);
    let retrier = linear(&clock).budget(&budget).build().unwrap();
    let mut service = Retry::new(RetryPolicy::new(retrier), service);
    let mut call = Box::pin(service.call("r"));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(budget.left(), 490.0);
    drop(call);
    assert_eq!(budget.left(), 500.0);
}

/// tower does not ask a policy after a wait, as its documentation says; the layer has no such attempt.
#[test]
fn a_late_timer_lets_one_attempt_start_after_the_deadline_of_a_policy() {
    for (is_layer, made) in [(true, 1), (false, 2)] {
        let clock = TestClock::new();
        let (attempts, service) = until(9);
        let retrier = linear(&clock).build().unwrap();
        let mut call: Pin<Box<dyn Future<Output = bool>>> = if is_layer {
            let layer = RetryLayer::new(retrier).deadline(3 * SECOND);
            let call = layer.layer(service).oneshot("r");
            Box::pin(async { call.await.is_ok() })
        } else {
            let policy = RetryPolicy::new(retrier).deadline(3 * SECOND);
            let call = Retry::new(policy, service).oneshot("r");
            Box::pin(async { call.await.is_ok() })
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        clock.advance(4 * SECOND);
        assert_eq!(call.as_mut().poll(&mut context), Poll::Ready(false));
        assert_eq!(attempts.load(Ordering::Relaxed), made);
    }
}

#[test]
fn a_breaker_refuses_requests_of_the_layer_and_ends_those_of_the_policy() {
    let clock = TestClock::new();
    let settings = BreakerSettings::default()
        .minimum(2)
        .shortest_outage(Duration::ZERO)
        .pauses(Backoff::milliseconds(60_000, 60_000));
    let breaker = Breaker::new("b", settings);
    let retrier = linear(&clock).breaker(&breaker).build().unwrap();
    // Two attempts of four open it.
    let (attempts, service) = until(9);
    let policy = RetryPolicy::new(retrier.clone());
    let error = clock.block_on(Retry::new(policy.clone(), service).oneshot("r"));
    assert_eq!(error.unwrap_err().code, "HTTP 503");
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
    let (attempts, service) = until(1);
    let service = RetryLayer::new(retrier).layer(service);
    let error = clock.block_on(service.clone().oneshot("r")).unwrap_err();
    assert_eq!(error.end(), End::BreakerOpen);
    assert_eq!(attempts.load(Ordering::Relaxed), 0);
    // The policy cannot refuse an attempt: one that ends after the pause is the probe.
    clock.advance(60 * SECOND);
    let (_, first) = until(1);
    clock
        .block_on(Retry::new(policy, first).oneshot("r"))
        .unwrap();
    clock.block_on(service.oneshot("r")).unwrap();
    assert_eq!(breaker.status().in_flight, 0);
}
