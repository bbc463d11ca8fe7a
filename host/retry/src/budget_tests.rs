//! The rules of the budget, one by one.

use std::time::Duration;

use super::*;

fn settings() -> BudgetSettings {
    BudgetSettings::AWS_2_0.floor_per_second(0.0)
}

fn start() -> Instant {
    backstop_core::clock::instant()
}

const TRANSIENT: ErrorClass = ErrorClass::Transient;
const THROTTLED: ErrorClass = ErrorClass::Throttled;

#[test]
fn a_retry_costs_what_its_class_costs() {
    let now = start();
    for (settings, transient, throttled, other) in [
        (BudgetSettings::AWS_2_0, 490.0, 495.0, 495.0),
        (BudgetSettings::AWS_2_1, 486.0, 495.0, 486.0),
    ] {
        for (class, left) in [
            (TRANSIENT, transient),
            (THROTTLED, throttled),
            (ErrorClass::Other("cart".to_owned()), other),
        ] {
            let budget = Budget::new("b", settings);
            let _retry = budget.take(&class, now).unwrap();
            assert_eq!(budget.left(), left, "{class}");
        }
    }
}

#[test]
fn a_retry_gives_back_unless_it_was_sent_and_failed() {
    let now = start();
    let budget = Budget::new("b", settings());
    drop(budget.take(&TRANSIENT, now).unwrap());
    assert_eq!(budget.left(), 500.0, "cancelled before it was sent");
    let mut sent = budget.take(&TRANSIENT, now).unwrap();
    sent.send();
    drop(sent);
    assert_eq!(budget.left(), 490.0, "sent, and failed or cancelled");
    let mut sent = budget.take(&TRANSIENT, now).unwrap();
    sent.send();
    assert_eq!(budget.left(), 480.0);
    sent.succeeded();
    assert_eq!(budget.left(), 490.0, "succeeded");
}

#[test]
fn first_successes_fill_the_bucket_to_its_capacity() {
    let now = start();
    let budget = Budget::new("b", settings());
    let mut retry = budget.take(&THROTTLED, now).unwrap();
    retry.send();
    drop(retry);
    for left in [496.0, 497.0, 498.0, 499.0, 500.0, 500.0] {
        budget.first_succeeded();
        assert_eq!(budget.left(), left);
    }
}

#[test]
fn an_empty_bucket_refuses_and_time_refills_it() {
    let mut now = start();
    let budget = Budget::new("b", settings().capacity(20).refill_per_second(4.0));
    let retries = [(); 2].map(|()| budget.take(&TRANSIENT, now).unwrap());
    assert!(budget.take(&TRANSIENT, now).is_none());
    // One token in each quarter of a second, however often somebody asks.
    for _ in 0..2_499 {
        now += Duration::from_millis(1);
        assert!(budget.take(&TRANSIENT, now).is_none());
    }
    now += Duration::from_millis(1);
    assert!(budget.take(&TRANSIENT, now).is_some());
    drop(retries);
    // Never above the capacity.
    now += Duration::from_secs(3_600);
    drop(budget.take(&TRANSIENT, now));
    assert_eq!(budget.left(), 20.0);
}

#[test]
fn the_floor_allows_its_retries_in_each_second_and_no_more() {
    let mut now = start();
    let budget = Budget::new("b", settings().capacity(0).floor_per_second(2.0));
    let allowed = |now| {
        let mut count = 0;
        while let Some(mut retry) = budget.take(&TRANSIENT, now) {
            retry.send();
            count += 1;
        }
        count
    };
    assert_eq!(allowed(now), 2);
    let mut total = 0;
    for _ in 0..100 {
        now += Duration::from_millis(100);
        total += allowed(now);
    }
    assert_eq!(total, 20, "in ten seconds");
    // Saved up for a second, not for an hour.
    now += Duration::from_secs(3_600);
    assert_eq!(allowed(now), 2);
    // A cancelled one is given back.
    now += Duration::from_millis(500);
    drop(budget.take(&TRANSIENT, now).unwrap());
    assert_eq!(allowed(now), 1);
    // One that succeeds earns what a first success earns, here none above the capacity of 0.
    now += Duration::from_millis(500);
    budget.take(&TRANSIENT, now).unwrap().succeeded();
    assert_eq!((budget.left(), allowed(now)), (0.0, 0));
}

#[test]
fn a_floor_below_one_retry_a_second_allows_one() {
    let now = start();
    let budget = Budget::new("b", settings().capacity(0).floor_per_second(0.1));
    let mut take = |after| {
        let retry = budget.take(&TRANSIENT, now + Duration::from_secs(after));
        retry.map(|mut retry| retry.send()).is_some()
    };
    let taken = [0, 9, 10, 19, 20].map(&mut take);
    assert_eq!(taken, [true, false, true, false, true]);
}

#[test]
fn no_number_of_threads_takes_more_than_there_is() {
    let now = start();
    let budget = Budget::new("b", settings().capacity(1_000));
    let take = || {
        let mut sent = 0;
        for _ in 0..1_000 {
            match budget.take(&THROTTLED, now) {
                Some(mut retry) if sent % 2 == 0 => {
                    retry.send();
                    sent += 1;
                }
                // Given back: another thread takes it.
                Some(_) => sent += 1,
                None => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(take);
        }
    });
    assert_eq!(budget.left(), 0.0);
    assert!(budget.take(&THROTTLED, now).is_none());
}

#[test]
fn numbers_that_make_no_sense_count_as_zero() {
    let now = start();
    for odd in [-1.0, f64::NAN, f64::NEG_INFINITY] {
        let budget = Budget::new(
            "b",
            settings()
                .capacity(0)
                .refill_per_second(odd)
                .floor_per_second(odd),
        );
        assert!(budget.take(&TRANSIENT, now).is_none());
        let later = now + Duration::from_secs(1_000);
        assert!(budget.take(&TRANSIENT, later).is_none());
    }
}

#[test]
fn numbers_without_end_are_a_full_bucket_and_a_floor_without_end() {
    let now = start();
    for (refill, floor) in [(f64::INFINITY, 0.0), (0.0, f64::INFINITY)] {
        let numbers = settings()
            .capacity(10)
            .refill_per_second(refill)
            .floor_per_second(floor);
        let budget = Budget::new("b", numbers);
        for seconds in 1..1_000 {
            let later = now + Duration::from_secs(seconds);
            let mut taken = budget.take(&TRANSIENT, later).unwrap();
            taken.send();
        }
    }
    // A retry that costs nothing is never refused.
    let free = settings()
        .capacity(0)
        .transient_cost(0)
        .floor_per_second(0.0);
    assert!(Budget::new("b", free).take(&TRANSIENT, now).is_some());
}
