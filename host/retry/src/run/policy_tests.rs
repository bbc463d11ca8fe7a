//! What policies and observers see of a call, and what becomes of their answers.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use backstop_core::decision::{Action, Answer, ErrorClass};
use backstop_core::failure::{Error, Failure, Milliseconds};
use backstop_core::policy::Policy;

use super::tests::{SECOND, busy, failing, linear};
use crate::{Budget, Event, FALLBACK_ATTEMPTS, TestClock};

/// A policy of the program's own.
#[derive(Debug)]
struct Own(fn(&Failure) -> Answer);

impl Policy for Own {
    fn name(&self) -> &str {
        "own"
    }

    fn answer(&self, failure: &Failure) -> Answer {
        self.0(failure)
    }
}

fn answer(action: Action) -> Answer {
    Answer::new(ErrorClass::Transient, action)
}

#[test]
fn a_broken_policy_is_replaced_by_the_fallback_for_a_few_attempts() {
    let clock = TestClock::new();
    let invalid = |_: &Failure| {
        answer(Action::Retry {
            delay: Milliseconds(u32::MAX),
        })
    };
    let retrier = linear(&clock).policy(Own(invalid)).build().unwrap();
    let (times, error) = failing(&clock, &retrier, None);
    assert_eq!(times.len(), FALLBACK_ATTEMPTS as usize);
    // At most 1 + 2 + 4 + 8 s.
    assert!(clock.elapsed() <= 15 * SECOND);
    assert_eq!(
        error.to_string(),
        "gave up after 5 attempts: the policy is broken, and 5 attempts failed: HTTP 503"
    );
}

#[test]
fn a_discard_gives_up() {
    let clock = TestClock::new();
    let discard = |_: &Failure| {
        answer(Action::Discard {
            reason: "too late".to_owned(),
        })
    };
    let retrier = linear(&clock).policy(Own(discard)).build().unwrap();
    let (_, error) = failing(&clock, &retrier, None);
    assert_eq!(error.to_string(), "gave up after 1 attempt: too late");
}

#[test]
fn a_policy_receives_the_failure_within_bounds() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let failures = Arc::clone(&seen);
    let clock = TestClock::new();
    let retrier = linear(&clock)
        .name("articles")
        .observe(move |event: &Event<'_>| match event {
            Event::Retrying { failure, .. } => failures.lock().unwrap().push((*failure).clone()),
            Event::Ended {
                failed: Some((failure, _)),
                ..
            } => failures.lock().unwrap().push((*failure).clone()),
            Event::Ended { failed: None, .. } | Event::Succeeded { .. } => {}
        })
        .max_attempts(2)
        .build()
        .unwrap();
    let huge = "x".repeat(1 << 20);
    let call = retrier
        .run(|_| async { Err::<(), _>(Error::new("HTTP 503", huge.clone())) })
        .id(huge.clone())
        .attribute("tenant", "t-1")
        .attribute("huge", huge.clone());
    clock.block_on(call).unwrap_err();
    let failures = seen.lock().unwrap();
    let [first, second] = failures.as_slice() else {
        panic!("{failures:?}");
    };
    assert!(first.message_id.starts_with("sha256:"));
    assert_eq!(
        first.error.message.len(),
        backstop_core::failure::MESSAGE_BYTES
    );
    assert_eq!(first.attributes, [("tenant".to_owned(), "t-1".to_owned())]);
    assert_eq!(first.source, "retrier:articles");
    assert_eq!(
        (first.age, second.age),
        (Milliseconds(0), Milliseconds(1_000))
    );
    assert_eq!(second.previous_delay, Some(Milliseconds(1_000)));
    assert_eq!(second.attempt, NonZeroU32::MIN.saturating_add(1));
    assert_eq!(second.failed_at.since(first.failed_at), SECOND);
    assert_ne!(first.random, second.random);
}

#[test]
fn ids_are_unique_and_with_a_seed_the_same_in_every_run() {
    let ids = |seed: Option<u64>| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let ids = Arc::clone(&seen);
        let clock = TestClock::new();
        let mut builder = linear(&clock).max_attempts(1);
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        let retrier = builder
            .observe(move |event: &Event<'_>| {
                if let Event::Ended {
                    failed: Some((failure, _)),
                    ..
                } = event
                {
                    ids.lock().unwrap().push(failure.message_id.clone());
                }
            })
            .build()
            .unwrap();
        failing(&clock, &retrier, None);
        failing(&clock, &retrier, None);
        seen.lock().unwrap().clone()
    };
    assert_eq!(ids(Some(7)), ["0000000000000007-1", "0000000000000007-2"]);
    assert_ne!(ids(None), ids(None));
}

#[test]
fn every_end_is_an_event() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let clock = TestClock::new();
    let retrier = linear(&clock)
        .budget(&Budget::aws_2_0())
        .observe(move |event: &Event<'_>| {
            events.lock().unwrap().push(match event {
                Event::Succeeded { attempts, .. } => format!("succeeded {attempts}"),
                Event::Retrying {
                    delay, budget_left, ..
                } => format!("retrying {delay:?} {budget_left:?}"),
                Event::Ended { end, time_left, .. } => format!("{end} {time_left:?}"),
            });
        })
        .build()
        .unwrap();
    let call = retrier.run(|attempt| async move {
        match attempt.number() {
            2 => Ok(()),
            _ => Err(busy()),
        }
    });
    clock.block_on(call).unwrap();
    failing(&clock, &retrier, Some(SECOND));
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "retrying 1s Some(490.0)",
            "succeeded 2",
            "deadline-exceeded Some(1s)",
        ]
    );
}
