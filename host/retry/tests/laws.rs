//! The laws of a call, in virtual time: never past the deadline, never above the cap, attempts exact, the budget conserved by any number of tasks, and nothing left behind by a call that is cancelled at any point.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use backstop_retry::failure::Milliseconds;
use backstop_retry::{
    Attempt, Budget, BudgetSettings, Clock, End, Error, Event, FullJitter, Retrier, RetryError,
    TestClock,
};
use proptest::prelude::*;

const CAPACITY: u32 = 300;

/// Nothing comes back but what was taken.
const CONSERVED: BudgetSettings = BudgetSettings::AWS_2_0
    .capacity(CAPACITY)
    .first_success(0)
    .floor_per_second(0.0);

/// What one attempt does.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// How long it takes, in milliseconds.
    takes: u64,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Transient,
    Throttled,
    RetryAfter(u32),
    Permanent,
}

impl Outcome {
    fn result(self) -> Result<(), Error> {
        match self {
            Self::Success => Ok(()),
            Self::Transient => Err(Error::new("HTTP 503", "")),
            Self::Throttled => Err(Error::new("ThrottlingException", "")),
            Self::RetryAfter(milliseconds) => {
                Err(Error::new("HTTP 503", "").retry_after(Milliseconds(milliseconds)))
            }
            Self::Permanent => Err(Error::new("ValidationException", "")),
        }
    }

    /// What a retry after it costs.
    fn cost(self) -> u32 {
        match self {
            Self::Throttled => CONSERVED.throttled_cost,
            Self::Success | Self::Transient | Self::RetryAfter(_) | Self::Permanent => {
                CONSERVED.transient_cost
            }
        }
    }
}

/// One call; by default, without limits of its own.
#[derive(Debug, Clone, Default)]
struct Plan {
    /// What the attempts do; the last step repeats.
    steps: Vec<Step>,
    deadline: Option<u64>,
    interrupt: bool,
    attempt_timeout: Option<u64>,
    min_attempt_time: u64,
    /// The call is dropped at this poll.
    cancelled_at: Option<usize>,
}

impl Plan {
    fn step(&self, attempt: u32) -> Step {
        let index = attempt as usize - 1;
        *self.steps.get(index).or(self.steps.last()).unwrap()
    }
}

/// What happened to one call.
#[derive(Debug, Default)]
struct Trace {
    /// When attempts started, in milliseconds.
    started: RefCell<Vec<u64>>,
    /// When the last attempt succeeded or failed by itself.
    ended: RefCell<Vec<u64>>,
    /// Attempts under way.
    running: Cell<usize>,
    /// The tokens of retries that were sent and did not succeed.
    used: Cell<u32>,
    end: RefCell<Option<Result<(), RetryError<Error>>>>,
    ended_at: Cell<u64>,
}

struct Running<'a>(&'a Trace);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

fn milliseconds(clock: &TestClock) -> u64 {
    u64::try_from(clock.elapsed().as_millis()).unwrap()
}

/// Runs one call to its end, or to its cancellation.
async fn call(retrier: &Retrier, clock: &TestClock, plan: &Plan, trace: &Trace) {
    let attempt = |attempt: Attempt| async move {
        trace.started.borrow_mut().push(milliseconds(clock));
        trace.running.set(trace.running.get() + 1);
        let _running = Running(trace);
        let number = attempt.number();
        let cost = match number {
            1 => 0,
            // A timeout is transient.
            _ if times_out(plan, number - 1) => CONSERVED.transient_cost,
            _ => plan.step(number - 1).outcome.cost(),
        };
        trace.used.set(trace.used.get() + cost);
        let Step { takes, outcome } = plan.step(number);
        if takes > 0 {
            let until = clock.now() + Duration::from_millis(takes);
            clock.sleep_until(until).await;
        }
        trace.ended.borrow_mut().push(milliseconds(clock));
        if outcome == Outcome::Success {
            trace.used.set(trace.used.get() - cost);
        }
        outcome.result()
    };
    let mut run = retrier
        .run(attempt)
        .interrupt_at_deadline(plan.interrupt)
        .min_attempt_time(Duration::from_millis(plan.min_attempt_time));
    if let Some(deadline) = plan.deadline {
        run = run.deadline(Duration::from_millis(deadline));
    }
    if let Some(timeout) = plan.attempt_timeout {
        run = run.attempt_timeout(Duration::from_millis(timeout));
    }
    let mut run = Some(Box::pin(run));
    let mut polls = 0;
    poll_fn(|context| {
        if plan.cancelled_at == Some(polls) {
            run = None;
            return Poll::Ready(());
        }
        polls += 1;
        let polled = run.as_mut().unwrap().as_mut().poll(context);
        polled.map(|result| *trace.end.borrow_mut() = Some(result))
    })
    .await;
    drop(run);
    trace.ended_at.set(milliseconds(clock));
}

fn times_out(plan: &Plan, attempt: u32) -> bool {
    plan.attempt_timeout
        .is_some_and(|timeout| plan.step(attempt).takes > timeout)
}

/// Awaits all of these at once.
async fn join_all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut futures: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Runs all calls at once.
fn run_all(retrier: &Retrier, clock: &TestClock, plans: &[Plan]) -> Vec<Trace> {
    let traces: Vec<Trace> = plans.iter().map(|_| Trace::default()).collect();
    let calls = plans.iter().zip(&traces);
    let calls = calls.map(|(plan, trace)| call(retrier, clock, plan, trace));
    clock.block_on(join_all(calls));
    traces
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Transient),
        2 => Just(Outcome::Throttled),
        1 => Just(Outcome::Success),
        1 => (0..20_000_u32).prop_map(Outcome::RetryAfter),
        1 => Just(Outcome::Permanent),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let takes = prop_oneof![Just(0), 1..500_u64];
    (takes, outcome()).prop_map(|(takes, outcome)| Step { takes, outcome })
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        prop::collection::vec(step(), 1..6),
        prop::option::of(0..3_000_u64),
        any::<bool>(),
        prop::option::of(1..400_u64),
        prop_oneof![Just(0), 1..500_u64],
        prop::option::of(0..8_usize),
    )
        .prop_map(
            |(steps, deadline, interrupt, attempt_timeout, min_attempt_time, cancelled_at)| Plan {
                steps,
                deadline,
                interrupt,
                attempt_timeout,
                min_attempt_time,
                cancelled_at,
            },
        )
}

/// How a policy spreads its attempts.
#[derive(Debug, Clone, Copy)]
struct Limits {
    base: u64,
    cap: u64,
    max_attempts: u32,
    max_delay: u64,
    seed: u64,
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        1..200_u64,
        0..2_000_u64,
        1..8_u32,
        1..10_000_u64,
        any::<u64>(),
    )
        .prop_map(|(base, above, max_attempts, max_delay, seed)| Limits {
            base,
            cap: base + above,
            max_attempts,
            max_delay,
            seed,
        })
}

/// Failures that were retried: the milliseconds that the service asked for, and the delay.
type Delays = Arc<Mutex<Vec<(u64, u64)>>>;

fn retrier(clock: &TestClock, limits: Limits, budget: &Budget) -> (Retrier, Delays) {
    let delays = Delays::default();
    let seen = Arc::clone(&delays);
    let policy = FullJitter::default()
        .base(Duration::from_millis(limits.base))
        .cap(Duration::from_millis(limits.cap))
        .max_attempts(limits.max_attempts);
    let retrier = Retrier::builder()
        .clock(clock.clone())
        .policy(policy)
        .max_delay(Duration::from_millis(limits.max_delay))
        .budget(budget)
        .seed(limits.seed)
        .observe(move |event: &Event<'_>| {
            if let Event::Retrying { failure, delay, .. } = event {
                let asked = failure.error.retry_after.unwrap_or_default();
                let delay = u64::try_from(delay.as_millis()).unwrap();
                seen.lock().unwrap().push((asked.0.into(), delay));
            }
        })
        .build()
        .unwrap();
    (retrier, delays)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_number_of_calls_obeys_the_laws(
        limits in limits(),
        plans in prop::collection::vec(plan(), 1..12),
    ) {
        let clock = TestClock::new();
        let budget = Budget::new("laws", CONSERVED);
        let (retrier, delays) = retrier(&clock, limits, &budget);
        let traces = run_all(&retrier, &clock, &plans);

        for (plan, trace) in plans.iter().zip(&traces) {
            let started = trace.started.borrow();
            // No attempt more than allowed.
            prop_assert!(started.len() <= limits.max_attempts as usize);
            if let Some(deadline) = plan.deadline {
                // No attempt starts at the deadline or without its minimum of time.
                for start in started.iter() {
                    prop_assert!(*start < deadline);
                    prop_assert!(start + plan.min_attempt_time <= deadline);
                }
                if plan.interrupt {
                    prop_assert!(trace.ended_at.get() <= deadline, "{trace:?}");
                }
            }
            // No attempt is under way after the end.
            prop_assert_eq!(trace.running.get(), 0);
            if let Some(Err(error)) = &*trace.end.borrow() {
                prop_assert_eq!(error.attempts() as usize, started.len());
                if error.end() == End::Permanent {
                    prop_assert_eq!(&error.error().unwrap().code, "ValidationException");
                }
                prop_assert_eq!(error.time_left().is_some(), plan.deadline.is_some());
            }
        }
        // No delay is above the cap, unless the service asked for it, and none above the longest.
        for (asked, delay) in delays.lock().unwrap().iter() {
            prop_assert!(*delay <= limits.cap.max(*asked).min(limits.max_delay));
            prop_assert!(*delay >= (*asked).min(limits.max_delay));
        }
        // What is not left was used by a retry that was sent and did not succeed.
        let used: u32 = traces.iter().map(|trace| trace.used.get()).sum();
        prop_assert_eq!(budget.left(), f64::from(CAPACITY - used));
        // No timer is left behind.
        prop_assert_eq!(clock.sleeping(), 0);
    }

    #[test]
    fn the_number_of_attempts_is_exact(
        limits in limits(), succeeds_at in 1..12_u32, takes in 0..50_u64,
    ) {
        let clock = TestClock::new();
        let budget = Budget::new("laws", CONSERVED.capacity(10_000));
        let (retrier, _) = retrier(&clock, limits, &budget);
        let failing = Step { takes, outcome: Outcome::Transient };
        let mut steps = vec![failing; succeeds_at as usize - 1];
        steps.push(Step { takes, outcome: Outcome::Success });
        let plan = Plan {
            steps,
            ..Plan::default()
        };
        let traces = run_all(&retrier, &clock, &[plan]);
        let trace = traces.first().unwrap();
        let attempts = succeeds_at.min(limits.max_attempts);
        prop_assert_eq!(trace.started.borrow().len(), attempts as usize);
        let succeeded = trace.end.borrow().as_ref().unwrap().is_ok();
        prop_assert_eq!(succeeded, succeeds_at <= limits.max_attempts);
    }

    #[test]
    fn a_seed_makes_the_same_calls_again(limits in limits(), plans in prop::collection::vec(plan(), 1..6)) {
        let times = || {
            let clock = TestClock::new();
            let (retrier, delays) = retrier(&clock, limits, &Budget::new("laws", CONSERVED));
            let traces = run_all(&retrier, &clock, &plans);
            let started: Vec<_> = traces.iter().map(|it| it.started.borrow().clone()).collect();
            let delays = delays.lock().unwrap().clone();
            (started, delays)
        };
        prop_assert_eq!(times(), times());
    }
}

/// With the default options, an attempt starts exactly when its delay is over.
#[test]
fn each_attempt_starts_when_its_delay_is_over() {
    let clock = TestClock::new();
    let limits = Limits {
        base: 100,
        cap: 1_000,
        max_attempts: 8,
        max_delay: 10_000,
        seed: 1,
    };
    let (retrier, delays) = retrier(&clock, limits, &Budget::aws_2_0());
    let plan = Plan {
        steps: vec![Step {
            takes: 7,
            outcome: Outcome::Transient,
        }],
        ..Plan::default()
    };
    let traces = run_all(&retrier, &clock, &[plan]);
    let trace = traces.first().unwrap();
    let (started, ended) = (trace.started.borrow(), trace.ended.borrow());
    let waited = started.iter().skip(1).zip(ended.iter());
    let waited: Vec<_> = waited.map(|(start, end)| start - end).collect();
    let delays = delays.lock().unwrap();
    let wanted: Vec<_> = delays.iter().map(|(_, delay)| *delay).collect();
    assert_eq!(waited, wanted);
    assert_eq!(waited.len(), 7);
}
