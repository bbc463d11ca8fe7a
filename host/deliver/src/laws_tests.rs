//! Laws that hold for every delivery, in virtual time, with generated entries, faults, limits and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::policy::FullJitter;
use futures_util::{StreamExt, stream};
use proptest::prelude::*;

use crate::service_tests::{Faults, Item, Service};
use crate::{AfterFailure, Delivery, Duplicates, Outcome, Status, Undelivered};

#[derive(Debug, Clone)]
struct Case {
    items: Vec<Item>,
    faults: Faults,
    duplicates: Duplicates,
    after_failure: AfterFailure,
    requests: usize,
    held: usize,
    max_attempts: u32,
    /// After how many milliseconds it is stopped.
    stop: Option<u64>,
    /// Milliseconds between two entries of the input.
    pace: u64,
}

prop_compose! {
    fn faults()(
        failed in 0..40_u64, rejected in 0..10_u64, unanswered in 0..10_u64,
        request_failed in 0..20_u64, request_unknown in 0..20_u64, poisonous in 0..5_u64, seed: u64,
    ) -> Faults {
        Faults { failed, rejected, unanswered, request_failed, request_unknown, poisonous, seed }
    }
}

prop_compose! {
    fn case()(
        // Few groups, so that entries meet.
        shapes in prop::collection::vec((prop::option::of(0..6_u8), 1..520_usize), 0..120),
        faults in faults(),
        duplicates in prop_oneof![Just(Duplicates::Separate), Just(Duplicates::LastWins), Just(Duplicates::Refuse)],
        after_failure in prop_oneof![Just(AfterFailure::StopGroup), Just(AfterFailure::GoOn)],
        requests in 1..6_usize,
        held in 1..80_usize,
        max_attempts in 1..8_u32,
        stop in prop::option::of(0..400_u64),
        pace in prop_oneof![Just(0), 1..20_u64],
    ) -> Case {
        let items = (0..).zip(shapes).map(|(id, (group, bytes))| Item { id, group, bytes }).collect();
        Case { items, faults, duplicates, after_failure, requests, held, max_attempts, stop, pace }
    }
}

/// Runs the case. Returns the service, the outcomes, and what was left in the input.
async fn run(case: &Case) -> (Service, Vec<Outcome<Item, u64>>, Vec<Item>) {
    let service = Service {
        duplicates: case.duplicates,
        ..Service::new(case.faults)
    };
    let pace = Duration::from_millis(case.pace);
    let input = stream::iter(case.items.clone()).then(move |item| async move {
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        item
    });
    let mut delivery = Delivery::new(service.clone())
        .policy(
            FullJitter::default()
                .base(Duration::from_millis(50))
                .max_attempts(case.max_attempts),
        )
        .requests(case.requests)
        .max_held(case.held, usize::MAX)
        .after_failure(case.after_failure)
        .seed(case.faults.seed);
    if let Some(stop) = case.stop {
        delivery = delivery.stop_when(tokio::time::sleep(Duration::from_millis(stop)));
    }
    let mut deliveries = delivery.start(input).unwrap();
    let mut outcomes = Vec::new();
    while let Some(outcome) = deliveries.next().await {
        assert!(deliveries.held() <= case.held);
        outcomes.push(outcome);
    }
    let counts = deliveries.counts();
    assert_eq!(counts.pending(), 0);
    assert_eq!(counts.entries, u64::try_from(outcomes.len()).unwrap());
    let requests = service.seen.lock().unwrap().requests.len();
    assert_eq!(counts.requests, u64::try_from(requests).unwrap());
    let rest = match deliveries.into_input() {
        Some(rest) => rest.collect().await,
        None => Vec::new(),
    };
    (service, outcomes, rest)
}

fn check(case: &Case, service: &Service, outcomes: &[Outcome<Item, u64>], rest: &[Item]) {
    // Each entry has exactly one outcome, or is still in the input.
    let mut ids: Vec<_> = outcomes.iter().map(|outcome| outcome.entry.id).collect();
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.index == outcome.entry.id)
    );
    ids.sort_unstable();
    ids.extend(rest.iter().map(|item| item.id));
    assert!(
        ids.iter()
            .copied()
            .eq(0..u64::try_from(case.items.len()).unwrap())
    );
    // A stop ends the generated pace: at most the entry that was under way is lost with its stream.
    assert!(case.stop.is_some() || rest.is_empty());

    let seen = service.seen.lock().unwrap();
    assert!(seen.violations.is_empty(), "{:?}", seen.violations);
    assert!(seen.most_in_flight <= case.requests);
    let mut stored: BTreeMap<u64, u32> = BTreeMap::new();
    for item in &seen.stored {
        *stored.entry(item.id).or_default() += 1;
    }
    let mut sent: BTreeMap<u64, u32> = BTreeMap::new();
    for id in seen.requests.iter().flatten() {
        *sent.entry(*id).or_default() += 1;
    }
    for outcome in outcomes {
        let id = outcome.entry.id;
        let times = stored.get(&id).copied().unwrap_or_default();
        assert_eq!(outcome.attempts, sent.get(&id).copied().unwrap_or_default());
        match &outcome.status {
            Status::Delivered(receipt) => {
                assert_eq!(*receipt, id);
                assert!(
                    (1..=outcome.unknown + 1).contains(&times),
                    "{outcome:?}: {times}"
                );
            }
            Status::Superseded => assert!(case.duplicates == Duplicates::LastWins),
            Status::Undelivered(why) => {
                assert!(times <= outcome.unknown, "{outcome:?}: {times}");
                match why {
                    Undelivered::TooLarge { bytes, .. } => assert!(*bytes > 500 && times == 0),
                    Undelivered::Rejected(_) => {
                        assert!(service.is_rejected(id) || service.is_poisonous(id));
                    }
                    Undelivered::GivenUp { .. } => assert!(outcome.attempts >= case.max_attempts),
                    Undelivered::HeldBack => {
                        assert_eq!(case.after_failure, AfterFailure::StopGroup);
                    }
                    Undelivered::Duplicate => assert_eq!(case.duplicates, Duplicates::Refuse),
                    Undelivered::Stopped(_) => assert!(case.stop.is_some()),
                }
            }
        }
    }
    for group in 0..6 {
        let of_group = |item: &&Item| item.group == Some(group);
        let order: Vec<_> = seen
            .stored
            .iter()
            .filter(of_group)
            .map(|item| item.id)
            .collect();
        assert!(order.is_sorted(), "group {group} was stored as {order:?}");
        let ended = outcomes
            .iter()
            .filter(|outcome| outcome.entry.group == Some(group));
        let undelivered: Vec<_> = ended
            .clone()
            .filter(|outcome| !matches!(outcome.undelivered(), None | Some(Undelivered::Duplicate)))
            .map(|outcome| outcome.entry.id)
            .collect();
        assert!(
            undelivered.is_sorted(),
            "group {group} came back as {undelivered:?}"
        );
        if case.after_failure == AfterFailure::StopGroup && case.duplicates != Duplicates::Refuse {
            let delivered: BTreeSet<_> = ended
                .filter(|outcome| matches!(outcome.status, Status::Delivered(_)))
                .map(|outcome| outcome.entry.id)
                .collect();
            if let (Some(first), Some(last)) = (undelivered.first(), delivered.last()) {
                assert!(
                    last < first,
                    "group {group}: {last} was delivered after {first} was not"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_laws_hold(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (service, outcomes, rest) = runtime.block_on(run(&case));
        check(&case, &service, &outcomes, &rest);
    }
}
