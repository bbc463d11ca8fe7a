//! The machine and the retrier in Rust go through the same calls, and do the same at the same times.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

use backstop_core::backoff::Backoff;
use backstop_core::breaker::{Breaker, BreakerSettings};
use backstop_core::budget::{Bucket, BudgetSettings};
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::policy::Profile;
use backstop_retry::{Budget, Clock, Retrier as InRust, TestClock};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::retrier::{Ids, NamedBreaker};

/// What an attempt does: how long it takes, and how it ends.
#[derive(Debug, Clone)]
struct Script {
    takes: u64,
    ends: Ends,
}

#[derive(Debug, Clone)]
enum Ends {
    Well,
    NotReady,
    Badly(Error, bool),
}

#[derive(Debug, Clone)]
struct Limits {
    most: Option<u32>,
    max_delay: Option<u64>,
    deadline: Option<u64>,
    timeout: Option<u64>,
    least: u64,
    lets_end: bool,
    has_budget: bool,
    has_breaker: bool,
}

/// The times of attempts, and how each call ended, with its text.
type Trace = Vec<(u64, String)>;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn breaker_numbers() -> BreakerSettings {
    BreakerSettings::default()
        .minimum(3)
        .shortest_outage(ms(0))
        .pauses(Backoff::milliseconds(100, 1_000))
}

fn budget_numbers() -> BudgetSettings {
    BudgetSettings::AWS_2_1.capacity(40).floor_per_second(1.0)
}

fn in_rust(limits: &Limits, scripts: &[Vec<Script>]) -> Trace {
    let clock = TestClock::new();
    let mut builder = InRust::builder()
        .policy(Profile::Http.policy())
        .clock(clock.clone())
        .seed(7)
        .min_attempt_time(ms(limits.least))
        .interrupt_at_deadline(!limits.lets_end);
    if let Some(most) = limits.most {
        builder = builder.max_attempts(most);
    }
    if let Some(delay) = limits.max_delay {
        builder = builder.max_delay(ms(delay));
    }
    if let Some(timeout) = limits.timeout {
        builder = builder.attempt_timeout(ms(timeout));
    }
    if limits.has_budget {
        builder = builder.budget(&Budget::new("default", budget_numbers()));
    }
    if limits.has_breaker {
        builder = builder.breaker(&backstop_retry::Breaker::new("b", breaker_numbers()));
    }
    let retrier = builder.build().unwrap();
    let trace = RefCell::new(Vec::new());
    let elapsed = || u64::try_from(clock.elapsed().as_millis()).unwrap();
    for script in scripts {
        let next = Cell::new(0);
        let call = retrier.run(|_| {
            trace.borrow_mut().push((elapsed(), "attempt".to_owned()));
            let at = next.replace(next.get() + 1).min(script.len() - 1);
            let Script { takes, ends } = script[at].clone();
            let mut sleep = clock.sleep_until(clock.now() + ms(takes));
            let mut waits = takes > 0;
            poll_fn(move |context| {
                if waits && sleep.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                waits = false;
                Poll::Ready(match &ends {
                    Ends::Well => Ok(false),
                    Ends::NotReady => Ok(true),
                    Ends::Badly(error, is_refused) => Err((error.clone(), *is_refused)),
                })
            })
        });
        let call = call.describe(|(error, _): &(Error, bool)| error.clone());
        let mut call = call
            .retry_if(|(_, is_refused)| !is_refused)
            .retry_if_ok(|is_not_ready| *is_not_ready);
        if let Some(deadline) = limits.deadline {
            call = call.deadline(ms(deadline));
        }
        let end = match clock.block_on(call) {
            Ok(_) => "succeeded".to_owned(),
            Err(error) => format!("{}: {error}", error.end()),
        };
        trace.borrow_mut().push((elapsed(), end));
    }
    trace.into_inner()
}

fn by_machine(limits: &Limits, scripts: &[Vec<Script>]) -> Trace {
    let start = backstop_core::clock::instant();
    let mut elapsed = 0;
    let now = |elapsed: u64| Now {
        instant: start + ms(elapsed),
        wall: Timestamp(elapsed),
    };
    let retrier = Rc::new(Retrier {
        limits: call::Limits::new(
            "retrier:default".to_owned(),
            limits.most.and_then(NonZeroU32::new),
            limits.max_delay.map(ms),
            None,
        ),
        policy: Policy::Default,
        budget: limits
            .has_budget
            .then(|| Rc::new(Bucket::new(budget_numbers()))),
        breaker: limits.has_breaker.then(|| {
            Rc::new(NamedBreaker {
                name: "b".into(),
                breaker: Breaker::new(breaker_numbers()).into(),
            })
        }),
        bulkhead: None,
        waits: true,
        ids: Ids {
            seed: 7,
            next: Cell::new(1),
        },
    });
    let mut trace = Vec::new();
    for script in scripts {
        let options = Options {
            deadline: limits.deadline.map(ms),
            attempt_timeout: limits.timeout.map(ms),
            min_attempt_time: ms(limits.least),
            lets_end: limits.lets_end,
            ..Options::default()
        };
        let mut call = Call::new(Rc::clone(&retrier), 0, options);
        let mut next = 0;
        let mut step = call.go_on(now(elapsed));
        let end = loop {
            step = match step {
                Step::Attempt { cut_after, .. } => {
                    trace.push((elapsed, "attempt".to_owned()));
                    let Script { takes, ends } = script[next.min(script.len() - 1)].clone();
                    next += 1;
                    let cut = cut_after.filter(|cut| *cut < ms(takes));
                    if let Some(cut) = cut {
                        elapsed += u64::try_from(cut.as_millis()).unwrap();
                        call.go_on(now(elapsed))
                    } else {
                        elapsed += takes;
                        match ends {
                            Ends::Well => call.succeeded(false, now(elapsed)),
                            Ends::NotReady => call.succeeded(true, now(elapsed)),
                            Ends::Badly(error, refused) => {
                                call.failed(error, refused, now(elapsed))
                            }
                        }
                    }
                }
                Step::Wait(time) => {
                    elapsed += u64::try_from(time.as_millis()).unwrap();
                    call.go_on(now(elapsed))
                }
                Step::Succeeded => break "succeeded".to_owned(),
                Step::Ended(end) => break format!("{end}: {}", call.ended(end)),
                other @ (Step::Evaluate { .. } | Step::Enter { .. }) => panic!("{other:?}"),
            };
        };
        trace.push((elapsed, end));
    }
    trace
}

fn ends() -> impl Strategy<Value = Ends> {
    let codes = vec![
        "HTTP 503",
        "ThrottlingException",
        "ValidationException",
        "ECONNRESET",
        "Odd\n",
    ];
    let asked = prop::option::of(prop_oneof![0..900_u32, Just(9_000_000)]);
    let error = (select(codes), asked)
        .prop_map(|(code, asked)| Error::new(code, "text").retry_after(asked.map(Milliseconds)));
    prop_oneof![
        2 => Just(Ends::Well),
        1 => Just(Ends::NotReady),
        12 => (error, prop::bool::weighted(0.05)).prop_map(|(error, refused)| Ends::Badly(error, refused)),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = |most: u64| prop::option::of(1..most);
    (
        prop::option::of(1..6_u32),
        some(500),
        some(2_000),
        some(300),
        select(vec![0, 0, 40]),
        any::<(bool, bool, bool)>(),
    )
        .prop_map(
            |(most, max_delay, deadline, timeout, least, (lets_end, budget, breaker))| Limits {
                most,
                max_delay,
                deadline,
                timeout,
                least,
                lets_end,
                has_budget: budget,
                has_breaker: breaker,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_call_is_the_one_of_the_retrier_in_rust(
        limits in limits(),
        // Times that no limit has, so that no two things happen at once.
        scripts in prop::collection::vec(prop::collection::vec(((0..12_u64).prop_map(|it| it * 37), ends()).prop_map(|(takes, ends)| Script { takes, ends }), 1..6), 1..8),
    ) {
        prop_assert_eq!(by_machine(&limits, &scripts), in_rust(&limits, &scripts));
    }
}
