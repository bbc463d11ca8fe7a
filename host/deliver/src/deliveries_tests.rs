//! A delivery in virtual time, case by case.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop_core::policy::{FullJitter, Linear};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::*;
use crate::service_tests::{Faults, Item, Service, items};
use crate::{Duplicates, Limits};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn item(id: u64, group: u8) -> Item {
    Item {
        id,
        group: Some(group),
        bytes: 10,
    }
}

#[tokio::test(start_paused = true)]
async fn without_failures_every_request_is_full() {
    let service = Service::new(Faults::default());
    let started = Instant::now();
    let delivery = Delivery::new(service.clone()).requests(10);
    let report = delivery.send(stream::iter(items(1_000))).await.unwrap();
    assert_eq!(
        (report.counts.delivered, report.counts.requests),
        (1_000, 100)
    );
    assert_eq!(service.seen.lock().unwrap().most_in_flight, 10);
    // Ten rounds of 10 to 16 ms.
    assert!(started.elapsed() <= ms(170), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn only_failed_entries_are_sent_again() {
    let service = Service::new(Faults {
        failed: 10,
        ..Faults::default()
    });
    let delivery = Delivery::new(service.clone());
    let report = delivery.send(stream::iter(items(10_000))).await.unwrap();
    let counts = report.counts;
    assert_eq!(counts.delivered, 10_000);
    assert!((1_000..1_300).contains(&counts.retries), "{counts:?}");
    assert!(counts.requests < 1_160, "{counts:?}");
    assert_eq!(counts.possibly_twice, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_full_waits_for_the_linger_only_while_more_may_come() {
    for (pace, expected) in [(4, 8 + 11), (60, 10 + 11)] {
        let service = Service::new(Faults::default());
        let input = stream::iter(items(3)).then(move |item| async move {
            tokio::time::sleep(ms(pace)).await;
            item
        });
        let mut deliveries = Delivery::new(service).start(Box::pin(input)).unwrap();
        let started = Instant::now() + ms(pace);
        deliveries.next().await.unwrap();
        let took = Instant::now() - started;
        assert_eq!(took, ms(expected), "{pace}");
    }
    let service = Service::new(Faults::default());
    let started = Instant::now();
    Delivery::new(service)
        .send(stream::iter(items(3)))
        .await
        .unwrap();
    assert!(started.elapsed() < ms(13));
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_halved_until_the_entry_is_found() {
    let service = Service::new(Faults {
        poisonous: 2,
        seed: 3,
        ..Faults::default()
    });
    let report = Delivery::new(service.clone())
        .send(stream::iter(items(1_000)))
        .await
        .unwrap();
    let poisonous: Vec<_> = (0..1_000).filter(|id| service.is_poisonous(*id)).collect();
    let mut rejected: Vec<_> = report
        .undelivered
        .iter()
        .map(|outcome| outcome.index)
        .collect();
    rejected.sort_unstable();
    assert_eq!(rejected, poisonous);
    assert!(report.undelivered.iter().all(|outcome| outcome.unknown == 0
        && matches!(outcome.undelivered(), Some(Undelivered::Rejected(error)) if error.code == "BatchRequestTooLong")));
    assert_eq!(
        report.counts.delivered,
        1_000 - u64::try_from(poisonous.len()).unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_may_have_arrived_is_sent_again_after_growing_pauses() {
    let lost = Faults {
        unanswered: 100,
        ..Faults::default()
    };
    let service = Service::new(lost);
    let policy = Linear::default().base(ms(10)).max_age(ms(10_000));
    let delivery = Delivery::new(service.clone()).policy(policy);
    let report = delivery.send(stream::iter(items(20))).await.unwrap();
    assert_eq!(report.undelivered.len(), 20);
    let copies = service.seen.lock().unwrap().stored.len();
    assert!((60..=100).contains(&copies), "{copies}");
}

#[tokio::test(start_paused = true)]
async fn each_entry_has_its_own_attempts_and_the_policy_gives_up() {
    let service = Service::new(Faults {
        failed: 100,
        ..Faults::default()
    });
    let policy = Linear::default().base(ms(1_000)).max_attempts(3);
    let started = Instant::now();
    let delivery = Delivery::new(service).policy(policy);
    let report = delivery.send(stream::iter(items(20))).await.unwrap();
    assert!((ms(3_000)..ms(3_100)).contains(&started.elapsed()));
    assert_eq!(report.undelivered.len(), 20);
    for outcome in &report.undelivered {
        assert_eq!((outcome.attempts, outcome.is_possibly_twice()), (3, false));
        let Some(Undelivered::GivenUp { error, reason }) = outcome.undelivered() else {
            panic!("{outcome:?}");
        };
        assert_eq!(error.code, "InternalError");
        assert!(reason.contains("max-attempts"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_entry_holds_back_its_group_and_nothing_else() {
    // The entry 0 fails for ten seconds, 1 is behind it.
    struct Stubborn(Instant);
    impl Target for Stubborn {
        type Entry = Item;
        type Receipt = ();
        fn source(&self) -> &str {
            "local:test"
        }
        fn limits(&self) -> Limits {
            Service::new(Faults::default()).limits
        }
        fn size(&self, entry: &Item) -> usize {
            entry.bytes
        }
        fn group(&self, entry: &Item) -> Option<crate::Group> {
            entry.group.map(|group| crate::Group::new([group]))
        }
        async fn send(&self, entries: &[Item]) -> Result<Vec<EntryResult<()>>, RequestError> {
            let fails = |item: &Item| item.id == 0 && self.0.elapsed() < ms(10_000);
            let result = |item: &Item| {
                if fails(item) {
                    EntryResult::Failed(Error::new("InternalError", ""))
                } else {
                    EntryResult::Delivered(())
                }
            };
            Ok(entries.iter().map(result).collect())
        }
    }
    let started = Instant::now();
    let input = [item(0, 1), item(1, 1), item(2, 2), item(3, 2), item(4, 3)];
    let mut deliveries = Delivery::new(Stubborn(started))
        .start(stream::iter(input))
        .unwrap();
    let mut order = Vec::new();
    while let Some(outcome) = deliveries.next().await {
        order.push((outcome.index, started.elapsed() >= ms(10_000)));
    }
    assert_eq!(
        order,
        [(2, false), (4, false), (3, false), (0, true), (1, true)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_later_entry_with_the_same_key_wins_or_is_refused() {
    for (duplicates, stored) in [
        (Duplicates::Separate, vec![0, 1, 2]),
        (Duplicates::LastWins, vec![2]),
        (Duplicates::Refuse, vec![0]),
    ] {
        let service = Service {
            duplicates,
            ..Service::new(Faults::default())
        };
        let input = stream::iter((0..3).map(|id| item(id, 1)));
        let report = Delivery::new(service.clone()).send(input).await.unwrap();
        let seen: Vec<_> = service
            .seen
            .lock()
            .unwrap()
            .stored
            .iter()
            .map(|it| it.id)
            .collect();
        assert_eq!(seen, stored);
        assert_eq!(
            report.counts.superseded,
            if duplicates == Duplicates::LastWins {
                2
            } else {
                0
            }
        );
        assert_eq!(
            report.undelivered.len(),
            if duplicates == Duplicates::Refuse {
                2
            } else {
                0
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_is_taken_from_the_input_than_is_allowed() {
    let service = Service {
        latency: ms(1_000),
        ..Service::new(Faults::default())
    };
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let input = stream::iter(items(100_000)).inspect(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let delivery = Delivery::new(service).requests(4).max_held(100, usize::MAX);
    let mut deliveries = delivery.start(input).unwrap();
    let first = deliveries.next().await.unwrap();
    assert_eq!(first.index, 0);
    // What is in flight, and two rounds more.
    assert!(taken.load(Ordering::Relaxed) <= 100);
    // Outcomes that are not taken hold up the input.
    tokio::time::sleep(ms(60_000)).await;
    assert!(taken.load(Ordering::Relaxed) <= 100);
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_what_is_held_are_limited_too() {
    let service = Service::new(Faults::default());
    let input = stream::iter(items(1_000));
    let mut deliveries = Delivery::new(service)
        .max_held(1_000, 200)
        .start(input)
        .unwrap();
    while deliveries.next().await.is_some() {
        assert!(deliveries.held() <= 20);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_is_in_flight_and_returns_the_rest() {
    let service = Service::new(Faults::default());
    let delivery = Delivery::new(service)
        .requests(2)
        .stop_when(tokio::time::sleep(ms(1)));
    let mut deliveries = delivery.start(stream::iter(items(1_000))).unwrap();
    let mut outcomes = Vec::new();
    while let Some(outcome) = deliveries.next().await {
        outcomes.push(outcome);
    }
    let delivered = outcomes
        .iter()
        .filter(|it| it.undelivered().is_none())
        .count();
    assert_eq!(delivered, 20);
    assert!(outcomes[..outcomes.len() - 20].iter().all(|outcome| {
        outcome.attempts == 0 && outcome.undelivered() == Some(&Undelivered::Stopped(None))
    }));
    assert!(outcomes[..outcomes.len() - 20].is_sorted_by_key(|outcome| outcome.index));
    let rest = deliveries.into_input().unwrap().count().await;
    assert_eq!(outcomes.len() + rest, 1_000);
}

#[tokio::test(start_paused = true)]
async fn abandoned_requests_have_an_unknown_result() {
    let service = Service {
        latency: Duration::MAX / 4,
        ..Service::new(Faults::default())
    };
    let mut deliveries = Delivery::new(service)
        .start(stream::iter(items(10)))
        .unwrap();
    assert!(
        tokio::time::timeout(ms(100), deliveries.next())
            .await
            .is_err()
    );
    deliveries.abandon();
    let mut outcomes = 0;
    while let Some(outcome) = deliveries.next().await {
        assert_eq!((outcome.attempts, outcome.unknown), (1, 1));
        outcomes += 1;
    }
    assert_eq!(outcomes, 10);
}

/// Fails each request in the same way.
struct Broken(fn() -> RequestError);

impl Target for Broken {
    type Entry = Item;
    type Receipt = ();
    fn source(&self) -> &str {
        "local:test"
    }
    fn limits(&self) -> Limits {
        Service::new(Faults::default()).limits
    }
    fn size(&self, entry: &Item) -> usize {
        entry.bytes
    }
    async fn send(&self, _: &[Item]) -> Result<Vec<EntryResult<()>>, RequestError> {
        Err(self.0())
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_concerns_every_request_stops_the_delivery() {
    let missing = || RequestError::Fatal(Error::new("QueueDoesNotExist", "no such queue"));
    let delivery = Delivery::new(Broken(missing)).requests(2);
    let report = delivery.send(stream::iter(items(100_000))).await.unwrap();
    assert!(
        report.counts.entries < 100 && report.counts.requests <= 2,
        "{:?}",
        report.counts
    );
    assert_eq!(report.counts.undelivered, report.counts.entries);
    let error = report.stopped_by.unwrap();
    assert_eq!(error.code, "QueueDoesNotExist");
    assert!(report.undelivered.iter().all(|outcome| {
        outcome.undelivered() == Some(&Undelivered::Stopped(Some(error.clone())))
    }));
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_sending_is_a_request_with_an_unknown_result() {
    let delivery = Delivery::new(Broken(|| panic!("by the test")));
    let delivery = delivery.policy(FullJitter::default().max_attempts(2));
    let report = delivery.send(stream::iter(items(15))).await.unwrap();
    assert_eq!(report.undelivered.len(), 15);
    assert!(
        report
            .undelivered
            .iter()
            .all(|outcome| outcome.unknown == 2)
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_of_the_policy_are_reported_at_the_start() {
    let delivery =
        Delivery::new(Service::new(Faults::default())).policy(Linear::default().base(ms(0)));
    let refused = delivery.send(stream::iter(items(1))).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "setting `base` is `0s`: expected 1ms to 14d"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_delays() {
    let run = |seed| async move {
        let faults = Faults {
            failed: 50,
            ..Faults::default()
        };
        let started = Instant::now();
        let delivery = Delivery::new(Service::new(faults)).seed(seed);
        delivery.send(stream::iter(items(100))).await.unwrap();
        started.elapsed()
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}
