//! Owners that crash, stop and come back, in virtual time.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_time::{Clock, Deadline, TestClock};
use tokio::time::{sleep, timeout};

use crate::store::{Record, Status};
use crate::test_world::{SECOND, START, VirtualClock, World, fresh, repeated};
use crate::{Idempotency, LeaseEnd, MemoryStore, OnUnknown, OnceError};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_work_runs_and_taken_over_when_its_owner_crashed() {
    let world = World::new();
    let owner = world.owner();
    // Longer than the lease, and longer than the record counts.
    let long = owner.once("o-7", || world.work(5_000 * SECOND));
    let (done, ()) = tokio::join!(long.into_future(), async {
        for _ in 0..499 {
            sleep(10 * SECOND).await;
            let other = owner.once("o-7", || world.work(SECOND)).await;
            assert!(
                matches!(other, Err(OnceError::InProgress { .. })),
                "{other:?}"
            );
        }
    });
    assert_eq!(done.unwrap(), fresh(1));

    let crashed = owner.once("o-8", || world.work(100 * SECOND));
    let crashed = tokio::time::timeout(50 * SECOND, crashed.into_future()).await;
    assert!(crashed.is_err());
    let early = owner.once("o-8", || world.work(SECOND)).await;
    let Err(OnceError::InProgress { left }) = early else {
        panic!("{early:?}")
    };
    assert!(left <= 30 * SECOND);
    sleep(left + Duration::from_millis(2)).await;
    let taken_over = owner.once("o-8", || world.work(SECOND)).await;
    assert_eq!(taken_over.unwrap(), fresh(2));
}

/// Whether the default lease outlives an outage that begins after `begins` milliseconds and lasts `lasts` seconds.
async fn outlives(begins: u32, lasts: u32, hangs: bool) -> bool {
    let world = World::new();
    let owner = world.builder().build().unwrap();
    let work = owner.once("o-7", || world.work(60 * SECOND));
    let outage = async {
        sleep(begins * Duration::from_millis(1)).await;
        if hangs {
            world.store.hangs.store(true, Relaxed);
            sleep(lasts * SECOND).await;
            world.store.hangs.store(false, Relaxed);
        } else {
            world.store.away_for(lasts * SECOND);
        }
    };
    let (done, ()) = tokio::join!(work.into_future(), outage);
    done.is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_default_lease_outlives_a_store_that_is_away_for_ten_seconds() {
    for begins in (100..14_000).step_by(97) {
        for hangs in [false, true] {
            assert!(outlives(begins, 10, hangs).await, "{begins} {hangs}");
        }
    }
    assert!(!outlives(6_000, 30, false).await);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_paused_past_its_lease_takes_no_further_step() {
    let world = World::new();
    let first = world.owner();
    let late = VirtualClock::new();
    let second = world
        .builder()
        .lease(30 * SECOND)
        .clock(late.clone())
        .build()
        .unwrap();
    let (first, second) = tokio::join!(
        async {
            first
                .once("o-7", || async {
                    sleep(SECOND).await;
                    // The process stops here for 40 s; it sees the time when it goes on.
                    world.clock.ahead.store(40_000, Relaxed);
                    tokio::task::yield_now().await;
                    world.work(Duration::ZERO).await
                })
                .await
        },
        async {
            sleep(2 * SECOND).await;
            late.ahead.store(40_000, Relaxed);
            second.once("o-7", || world.work(SECOND)).await
        }
    );
    let error = first.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::NotRenewed)),
        "{error}"
    );
    assert_eq!((second.unwrap(), world.effects()), (fresh(1), 1));
}

#[tokio::test(start_paused = true)]
async fn a_late_owner_cannot_overwrite_the_second_ones_result() {
    let world = World::new();
    let owner = world.owner();
    let key = owner.key_for("o-7").unwrap().unwrap();
    let work = || async {
        // Another one took over, by a clock that is ahead.
        let record = Record {
            status: Status::Completed,
            result: Some("7".to_owned()),
            owner: Some("another".to_owned()),
            ..world.store.only().unwrap()
        };
        world.store.records.put(key.as_str(), record);
        world.work(SECOND).await
    };
    let error = owner.once("o-7", work).await.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::TakenOver)),
        "{error}"
    );
    let repeat = owner.once("o-7", || world.work(SECOND)).await.unwrap();
    assert_eq!(repeat, repeated(7));
}

#[tokio::test(start_paused = true)]
async fn an_owner_stops_at_its_next_renewal_when_another_has_the_record() {
    let world = World::new();
    let owner = world.owner();
    let key = owner.key_for("o-7").unwrap().unwrap();
    let work = || async {
        let record = Record {
            owner: Some("another".to_owned()),
            ..world.store.only().unwrap()
        };
        world.store.records.put(key.as_str(), record);
        world.work(20 * SECOND).await
    };
    let error = owner.once("o-7", work).await.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::TakenOver)),
        "{error}"
    );
    assert_eq!(world.effects(), 0);
}

#[test]
fn a_deadline_may_be_an_instant_and_some_time_before_it() {
    let clock = TestClock::new();
    let builder = Idempotency::builder(MemoryStore::default(), "orders");
    let owner = builder.clock(clock.clone()).build().unwrap();
    let slow = owner.once("o-7", || async {
        clock.sleep(100 * SECOND).await;
        Ok::<_, Error>(1)
    });
    let deadline = Deadline::from(clock.now() + 10 * SECOND).earlier_by(SECOND);
    let error = clock
        .block_on(slow.deadline(deadline).into_future())
        .unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::Deadline)),
        "{error}"
    );
    assert_eq!(clock.elapsed(), 9 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn work_ends_at_its_deadline() {
    let world = World::new();
    let owner = world.builder().build().unwrap();
    let late = owner.once("o-7", || world.work(SECOND)).deadline(START);
    let error = late.await.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::Deadline)),
        "{error}"
    );
    assert_eq!(world.store.requests.load(Relaxed), 0);

    let slow = owner.once("o-7", || world.work(100 * SECOND));
    let error = slow.deadline(10 * SECOND).await.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::Deadline)),
        "{error}"
    );
    // One request: a lease to the deadline needs no renewal.
    assert_eq!(world.store.requests.load(Relaxed), 1);
    assert_eq!(
        world.store.only().unwrap().lease_until,
        Some(START.plus(10 * SECOND))
    );

    // With a lease of its own it is renewed, at most to the deadline.
    let slow = world.owner();
    let slow = slow
        .once("o-8", || world.work(100 * SECOND))
        .deadline(45 * SECOND);
    slow.await.unwrap_err();
    let keys = world.store.records.keys();
    let leases = keys
        .iter()
        .filter_map(|key| world.store.records.get(key)?.lease_until);
    assert_eq!(leases.max(), Some(START.plus(55 * SECOND)));
    assert_eq!(world.effects(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_may_have_been_done_is_refused_by_setting() {
    let world = World::new();
    let owner = world
        .builder()
        .on_unknown(OnUnknown::DeadLetter)
        .build()
        .unwrap();
    let crashed = owner
        .once("o-7", || world.work(100 * SECOND))
        .deadline(20 * SECOND);
    let crashed = tokio::time::timeout(10 * SECOND, crashed.into_future()).await;
    assert!(crashed.is_err());
    for wait in [0, 11, 7_200, 700_000] {
        sleep(wait * SECOND).await;
        let refused = owner.once("o-7", || world.work(SECOND)).await.unwrap_err();
        match wait {
            0 => assert!(matches!(refused, OnceError::InProgress { .. }), "{refused}"),
            _ => assert!(
                matches!(refused, OnceError::OutcomeUnknown { .. }),
                "{refused}"
            ),
        }
    }
    assert_eq!(world.effects(), 0);
}

/// DynamoDB's time to live deletes records whose `expires` has passed.
#[tokio::test(start_paused = true)]
async fn a_record_whose_outcome_nobody_knows_does_not_expire() {
    let world = World::new();
    let careful = world.builder().on_unknown(OnUnknown::DeadLetter);
    let careful = careful.lease(30 * SECOND).expires_after(SECOND);
    let careful = careful.build().unwrap();
    // It renews its lease before it crashes.
    let crashed = careful.once("o-7", || world.work(1_000 * SECOND));
    assert!(timeout(100 * SECOND, crashed.into_future()).await.is_err());
    sleep(400 * 24 * 3_600 * SECOND).await;
    let now = careful.0.clock.time().0 / 1_000;
    assert!(world.store.only().unwrap().expires > now);
    let error = careful.once("o-7", || world.work(SECOND)).await;
    assert!(
        matches!(error, Err(OnceError::OutcomeUnknown { .. })),
        "{error:?}"
    );

    // Work that is done expires as ever.
    let key = careful.key_for("o-7").unwrap().unwrap();
    world.store.records.delete(key.as_str());
    careful.once("o-7", || world.work(SECOND)).await.unwrap();
    assert!(world.store.only().unwrap().expires <= now + 3);
    assert_eq!(world.effects(), 1);
}
