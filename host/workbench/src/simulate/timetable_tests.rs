use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use backstop_engine::{Limits, Sandbox, builtin};

const SECOND: u64 = 1_000;

fn plan(messages: u32, code: &str) -> Plan {
    Plan {
        messages,
        seed: 0,
        error: Error::new(code, ""),
        source: "local:try".to_owned(),
        attributes: Vec::new(),
        bounds: Bounds::default(),
        attempt_takes: Milliseconds(0),
        horizon: NonZeroU32::new(1_000).unwrap(),
    }
}

static SANDBOX: LazyLock<Sandbox> =
    LazyLock::new(|| Sandbox::on_demand(Limits::default()).unwrap());

/// The built-in policies with a cap of one hour, compiled once for all cases.
static CAPPED: LazyLock<Vec<Arc<Policy>>> = LazyLock::new(|| {
    let capped = |name| backstop_versions::load(&SANDBOX, name, &[("cap", "1h")]).unwrap();
    builtin::names().map(capped).collect()
});

fn of(name: &str, settings: &[(&str, &str)], plan: &Plan, threads: usize) -> Timetable {
    let policy = backstop_versions::load(&SANDBOX, name, settings).unwrap();
    simulate(&policy, &Arc::default(), plan, threads, || ())
}

#[test]
fn a_policy_without_jitter_gives_every_message_the_same_times() {
    let settings = [("base", "10s"), ("max-attempts", "4")];
    let timetable = of("linear", &settings, &plan(3, "HTTP 503"), 2);
    let rows: Vec<_> = timetable
        .attempts
        .iter()
        .map(|row| {
            let (delay, since) = (row.delay, row.since_first_failure);
            assert_eq!(
                (delay.earliest, since.earliest),
                (delay.latest, since.latest)
            );
            (row.attempt, row.messages, delay.median, since.median)
        })
        .collect();
    assert_eq!(
        rows,
        [
            (2, 3, 10 * SECOND, 10 * SECOND),
            (3, 3, 20 * SECOND, 30 * SECOND),
            (4, 3, 30 * SECOND, 60 * SECOND)
        ]
    );
    let [end] = timetable.ended.as_slice() else {
        panic!("{:?}", timetable.ended)
    };
    assert_eq!(
        (end.verdict, end.reason.as_str(), end.messages),
        ("dead-letter", "max-attempts of 4 reached: HTTP 503", 3)
    );
    assert_eq!(
        (end.attempts.median, end.since_first_failure.median),
        (4, 60 * SECOND)
    );
    let busiest = timetable.busiest_second.unwrap();
    assert_eq!((busiest.after_seconds, busiest.retries), (10, 3));
    assert_eq!(timetable.evaluation, Evaluation::Live);
}

#[test]
fn the_duration_of_attempts_is_added_to_the_delays() {
    let plan = Plan {
        attempt_takes: Milliseconds(5_000),
        ..plan(1, "HTTP 503")
    };
    let settings = [("base", "10s"), ("max-attempts", "3")];
    let timetable = of("linear", &settings, &plan, 1);
    let starts = |row: &Row| row.since_first_failure.median;
    let starts: Vec<_> = timetable.attempts.iter().map(starts).collect();
    assert_eq!(starts, [10 * SECOND, 35 * SECOND]);
    let end = timetable.ended.first().unwrap();
    assert_eq!(end.since_first_failure.median, 40 * SECOND);
}

#[test]
fn a_permanent_error_is_dead_lettered_at_once() {
    let timetable = of("full-jitter", &[], &plan(5, "ValidationException"), 1);
    assert!(timetable.attempts.is_empty() && timetable.busiest_second.is_none());
    let end = timetable.ended.first().unwrap();
    assert_eq!(
        (end.messages, end.attempts.latest, end.reason.as_str()),
        (5, 1, "permanent: ValidationException")
    );
}

#[test]
fn the_queue_limits_hold_whatever_the_policy_answers() {
    let bounds = Bounds {
        max_attempts: NonZeroU32::new(7),
        ..Bounds::default()
    };
    let short = Plan {
        bounds,
        ..plan(20, "HTTP 503")
    };
    let timetable = of("full-jitter", &[], &short, 1);
    assert_eq!(timetable.attempts.last().unwrap().attempt, 7);
    let bounds = Bounds {
        retention: Some(Milliseconds(3_600_000)),
        ..Bounds::default()
    };
    let kept = Plan {
        bounds,
        ..plan(20, "HTTP 503")
    };
    let timetable = of("full-jitter", &[], &kept, 1);
    let latest = |row: &Row| row.since_first_failure.latest;
    assert!(timetable.attempts.iter().map(latest).max() < Some(3_300_000));
    assert!(
        timetable
            .ended
            .iter()
            .all(|end| end.reason.contains("retention of 1h"))
    );
}

#[test]
fn a_message_without_an_end_is_followed_to_the_horizon() {
    let plan = Plan {
        horizon: NonZeroU32::new(5).unwrap(),
        ..plan(4, "HTTP 503")
    };
    let timetable = of("linear", &[], &plan, 1);
    assert_eq!((timetable.attempts.len(), timetable.unended), (4, 4));
    assert!(timetable.ended.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_timetable_with_any_number_of_threads() {
    let settings = [("max-attempts", "9")];
    let with = |seed, threads| {
        let plan = Plan {
            seed,
            ..plan(100, "HTTP 503")
        };
        of("decorrelated-jitter", &settings, &plan, threads)
    };
    assert_eq!(with(1, 1), with(1, 3));
    assert_ne!(with(1, 1), with(2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn every_message_ends_once_and_its_retries_come_in_order(
        messages in 1..40_u32, seed in 0..u64::MAX, takes in 0..90_000_u32, most in 1..12_u32,
        policy in 0..4_usize,
    ) {
        let plan = Plan {
            seed,
            attempt_takes: Milliseconds(takes),
            bounds: Bounds { max_attempts: NonZeroU32::new(most), ..Bounds::default() },
            ..plan(messages, "HTTP 503")
        };
        let timetable = simulate(CAPPED.get(policy).unwrap(), &Arc::default(), &plan, 2, || ());
        let ended: usize = timetable.ended.iter().map(|end| end.messages).sum();
        prop_assert_eq!(ended, messages as usize);
        prop_assert_eq!(timetable.attempts.len() + 1, most as usize);
        let mut before = Percentiles::default();
        for row in &timetable.attempts {
            let (delay, since) = (row.delay, row.since_first_failure);
            prop_assert_eq!(row.messages, messages as usize);
            prop_assert!(delay.earliest <= delay.p5 && delay.p5 <= delay.median && delay.median <= delay.p95 && delay.p95 <= delay.latest);
            prop_assert!(delay.latest <= 3_600_000);
            prop_assert!(since.earliest >= before.earliest + delay.earliest && since.latest <= before.latest + delay.latest + u64::from(takes));
            prop_assert!(since.median >= before.median && since.p95 >= before.p95);
            before = since;
        }
    }
}
