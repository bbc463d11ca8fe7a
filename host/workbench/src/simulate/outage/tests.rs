use proptest::prelude::*;

use super::*;
use backstop_core::decision::{Action, DecidedBy, ErrorClass};
use backstop_engine::{Limits, Sandbox};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

/// Ten messages a second of 200 ms each, and an outage after a minute.
fn load(outage: u64) -> Load {
    Load {
        interval: Duration::from_millis(100),
        most: 10,
        takes: 200,
        outage: MINUTE..MINUTE + outage,
        retry_after: None,
    }
}

fn decision(action: Action) -> Decision {
    Decision {
        class: ErrorClass::Transient,
        action,
        decided_by: DecidedBy::Policy,
        hold: Default::default(),
        down_for: None,
    }
}

fn retry(delay: u32) -> Decision {
    let delay = Milliseconds(delay);
    decision(Action::Retry { delay })
}

fn dead_letter() -> Decision {
    let reason = "enough".to_owned();
    decision(Action::DeadLetter { reason })
}

fn run(load: &Load, breaker: bool, decide: impl FnMut(&Failed) -> Decision) -> Counts {
    let settings = breaker.then(BreakerSettings::default);
    model::run(load, settings, 0, decide)
}

#[test]
fn each_attempt_in_the_outage_fails_and_comes_again_after_whole_seconds() {
    let mut first = Vec::new();
    let counts = run(&load(10 * SECOND), false, |failed| {
        if failed.number == 600 {
            first.push((failed.attempt.get(), failed.at, failed.previous_delay));
        }
        retry(3_500)
    });
    // It comes when the outage begins.
    let delay = Some(Milliseconds(3_500));
    let took = MINUTE + 200;
    assert_eq!(
        first,
        [
            (1, took, None),
            (2, took + 4_200, delay),
            (3, took + 8_400, delay)
        ]
    );
    assert_eq!(
        (counts.messages, counts.succeeded, counts.left),
        (700, 700, 0)
    );
    // 100 in 10 s, and those of the first seconds again.
    assert_eq!(counts.requests_in_outage, 100 + 58 + 16);
    assert_eq!(counts.requests, 700 + counts.requests_in_outage);
    // Whatever came in the outage, and what is in flight at its end.
    assert_eq!(counts.peak_hidden, 103);
    // The last one begins in the outage's last 100 ms.
    assert_eq!(counts.drained_after, Some(4_300));
}

#[test]
fn an_open_breaker_lets_messages_wait_visibly_and_spends_few_requests() {
    let load = Load {
        most: 1_000,
        ..load(40 * MINUTE)
    };
    let [without, with] = [false, true].map(|breaker| run(&load, breaker, |_| retry(30_000)));
    assert!(without.requests_in_outage > 500_000, "{without:?}");
    assert!(with.requests_in_outage < 500, "{with:?}");
    assert!(without.peak_hidden > 24_000 && without.peak_visible < 100);
    // Afterwards, as many are in flight as may be.
    assert!(with.peak_hidden <= 1_100 && with.peak_visible > 23_900);
    for counts in [without, with] {
        assert_eq!((counts.succeeded, counts.left), (24_600, 0));
        assert!(counts.drained_after > Some(0));
    }
}

#[test]
fn a_policy_that_says_how_long_it_lasts_spares_probes() {
    let load = load(40 * MINUTE);
    let [silent, says] = [None, Some(Milliseconds(600_000))].map(|down_for| {
        run(&load, true, |_| Decision {
            down_for,
            ..retry(30_000)
        })
    });
    assert_eq!(silent.said_down, 0);
    // Ten in flight, then a probe each five minutes.
    assert!((9..=20).contains(&says.requests_in_outage), "{says:?}");
    assert_eq!(says.said_down, says.requests_in_outage);
    assert!(silent.requests_in_outage > 3 * says.requests_in_outage);
}

#[test]
fn what_a_policy_gives_up_is_counted_and_left_is_what_has_no_end() {
    let load = load(MINUTE);
    let counts = run(&load, false, |_| dead_letter());
    assert_eq!((counts.dead_letters, counts.succeeded), (600, 600));
    assert_eq!(counts.drained_after, Some(100));
    let late = run(&load, false, |_| retry(LONGEST.0));
    // Ten messages a second for 14 days would be more requests than a run makes.
    assert_eq!((late.left, late.drained_after), (600, None));
}

#[test]
fn a_plan_that_would_never_end_is_rejected() {
    let plan = |rate: &str, takes: u32, outage: u32| Plan {
        outage: Milliseconds(outage),
        rate: rate.parse().unwrap(),
        max_in_flight: NonZeroU32::new(10).unwrap(),
        attempt_takes: Milliseconds(takes),
        seed: 0,
        error: Error::new("HTTP 503", ""),
        source: "local:q".to_owned(),
        attributes: Vec::new(),
        bounds: Bounds::default(),
    };
    let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
    let policy = backstop_versions::load(&sandbox, "full-jitter", &[]).unwrap();
    let simulated = |plan| simulate(&policy, &Arc::default(), &plan, 2, || {});
    for (plan, expected) in [
        (plan("10/s", 900, 1_000), ""),
        (plan("10/s", 1_000, 1_000), "need at least 11 in flight"),
        (plan("1000000/s", 1, 1_000), "61000000 messages would come"),
        (plan("1000000000/s", 1, 1), "messages would come"),
    ] {
        match simulated(plan) {
            Ok(compared) => assert!(expected.is_empty() && compared.with.broken.is_empty()),
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_message_is_counted_once_and_the_same_run_gives_the_same_counts(
        outage in 1..300 * SECOND, most in 3_u32..30, breaker: bool, delays in prop::collection::vec(0_u32..90_000, 1..8),
    ) {
        let load = Load { most, ..load(outage) };
        let decide = |failed: &Failed| {
            let place = failed.attempt.get() as usize - 1;
            match delays.get(place) {
                Some(delay) => Decision { down_for: (delay % 7 == 0).then_some(Milliseconds(*delay)), ..retry(*delay) },
                None => dead_letter(),
            }
        };
        let counts = run(&load, breaker, decide);
        prop_assert_eq!(counts.left, 0);
        prop_assert_eq!(counts.messages, counts.succeeded + counts.dead_letters);
        prop_assert!(counts.requests >= counts.messages);
        prop_assert!(counts.peak_hidden >= 1 && counts.drained_after.is_some());
        prop_assert_eq!(run(&load, breaker, decide), counts);
    }
}
