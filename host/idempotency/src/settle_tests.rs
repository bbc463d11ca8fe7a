//! Calls with a store that is away, in virtual time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backstop_core::failure::Error;
use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use crate::test_world::{SECOND, World, fresh, repeated};
use crate::{Completed, LeaseEnd, OnceError};

#[tokio::test(start_paused = true)]
async fn a_call_without_a_store_fails_and_does_nothing() {
    let world = World::new();
    let owner = world.owner();
    world.store.is_away.store(true, Relaxed);
    let error = owner.once("o-7", || world.work(SECOND)).await.unwrap_err();
    let failure = Error::from(error);
    assert_eq!(failure.code, "IdempotencyStoreUnavailable");
    assert_eq!((failure.status, world.effects()), (Some(503), 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_holds_nobody_up() {
    let world = World::new();
    let owner = world.owner();
    let began = Instant::now();
    world.store.hangs.store(true, Relaxed);
    let error = owner.once("o-7", || world.work(SECOND)).await.unwrap_err();
    assert!(matches!(error, OnceError::Store(_)), "{error}");
    // The claim, and its release.
    assert!(began.elapsed() <= 11 * SECOND, "{:?}", began.elapsed());

    world.store.hangs.store(false, Relaxed);
    let work = owner.once("o-7", || world.work(25 * SECOND));
    let (done, ()) = tokio::join!(work.into_future(), async {
        sleep(9 * SECOND).await;
        world.store.hangs.store(true, Relaxed);
        sleep(8 * SECOND).await;
        world.store.hangs.store(false, Relaxed);
    });
    assert_eq!(done.unwrap(), fresh(1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_ten_seconds_makes_nothing_happen_twice() {
    for away_after in 0..40 {
        let world = World::new();
        let owner = world.owner();
        let work = owner.once("o-7", || world.work(20 * SECOND));
        let (first, ()) = tokio::join!(work.into_future(), async {
            sleep(away_after * SECOND + Duration::from_millis(500)).await;
            world.store.away_for(10 * SECOND);
        });
        assert_eq!(first.unwrap(), fresh(1), "away after {away_after} s");
        sleep(60 * SECOND).await;
        let second = owner.once("o-7", || world.work(SECOND)).await;
        assert_eq!(second.unwrap(), repeated(1));
    }
}

#[tokio::test(start_paused = true)]
async fn work_stops_with_its_lease_while_the_store_is_away() {
    let world = World::new();
    let owner = world.owner();
    let began = Instant::now();
    let work = owner.once("o-7", || world.work(100 * SECOND));
    let (error, ()) = tokio::join!(work.into_future(), async {
        sleep(SECOND).await;
        world.store.away_for(1_000 * SECOND);
    });
    let error = error.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::NotRenewed)),
        "{error}"
    );
    assert!(began.elapsed() <= 31 * SECOND, "{:?}", began.elapsed());
    assert_eq!(world.effects(), 0);
}

#[tokio::test(start_paused = true)]
async fn lost_answers_change_nothing() {
    let world = World::new();
    let owner = world.owner();
    world.store.loses_answers.store(true, Relaxed);
    let error = owner.once("o-7", || world.work(SECOND)).await.unwrap_err();
    assert!(matches!(error, OnceError::Store(_)), "{error}");
    // The claim was written, and then deleted.
    assert_eq!(world.store.only(), None);
    world.store.loses_answers.store(false, Relaxed);

    // The completion is written, and again.
    let work = owner.once("o-7", || async {
        let done = world.work(SECOND).await;
        world.store.loses_answers.store(true, Relaxed);
        done
    });
    let (done, ()) = tokio::join!(work.into_future(), async {
        sleep(5 * SECOND).await;
        world.store.loses_answers.store(false, Relaxed);
    });
    assert_eq!(done.unwrap(), fresh(1));
}

#[tokio::test(start_paused = true)]
async fn work_whose_end_cannot_be_recorded_is_done_and_says_so() {
    let world = World::new();
    let owner = world.owner();
    let work = || async {
        world.store.is_away.store(true, Relaxed);
        world.work(SECOND).await
    };
    let done = owner.once("o-7", work).await.unwrap();
    let unrecorded = Completed {
        recorded: false,
        ..fresh(1)
    };
    assert_eq!(done, unrecorded);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_stored_does_not_bring_the_work_back() {
    let world = World::new();
    let owner = world.owner();
    world.store.refuses_results.store(true, Relaxed);
    for _ in 0..3 {
        let error = owner.once("o-7", || world.work(SECOND)).await.unwrap_err();
        assert!(error.is_work_done());
        let failure = Error::from(error);
        assert_eq!(failure.code, "IdempotencyResultNotStored");
        assert_eq!(
            failure.message,
            "the work is done, and its result is not stored: Item size has exceeded the maximum"
        );
    }
    // Whatever the result is read as, it is nothing that the work never returned.
    let nothing = owner.once("o-7", || async { Ok::<(), Error>(()) }).await;
    assert!(matches!(nothing, Err(OnceError::ResultNotStored { .. })));
    let none = owner.once("o-7", || async { Ok::<Option<u32>, Error>(None) });
    assert!(matches!(none.await, Err(OnceError::ResultNotStored { .. })));
    assert_eq!(world.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_no_json_is_an_error_each_time() {
    let world = World::new();
    let owner = world.owner();
    for _ in 0..2 {
        let work = || async {
            world.work(SECOND).await?;
            Ok::<_, Error>(Some(HashMap::from([((1, 2), 3)])))
        };
        let error = owner.once("o-7", work).await.unwrap_err();
        assert!(
            matches!(&error, OnceError::ResultNotStored { reason } if reason.contains("key must be a string")),
            "{error}"
        );
    }
    assert_eq!(world.effects(), 1);
}

/// An earlier version of this library wrote a record without a result.
#[tokio::test(start_paused = true)]
async fn a_record_of_an_owner_without_a_result_has_none() {
    let world = World::new();
    let owner = world.owner();
    owner.once("o-7", || world.work(SECOND)).await.unwrap();
    let key = owner.key_for("o-7").unwrap().unwrap();
    let mut record = world.store.only().unwrap();
    record.result = None;
    world.store.records.put(key.as_str(), record.clone());
    let work = || async { Ok::<Option<u32>, Error>(None) };
    let error = owner.once("o-7", work).await.unwrap_err();
    assert!(
        matches!(error, OnceError::ResultNotStored { .. }),
        "{error}"
    );
    // Powertools writes none for a function that returns nothing.
    record.owner = None;
    world.store.records.put(key.as_str(), record);
    assert_eq!(owner.once("o-7", work).await.unwrap().result, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Owners that come, crash and work for different times, with a store that goes away now and then: no two effects while an owner can reach the store before its lease ends, and every call ends.
    #[test]
    fn an_effect_happens_once_unless_an_owner_crashed(
        owners in prop::collection::vec((0..60_u32, 1..40_u32), 1..8),
        outages in prop::collection::vec((0..100_u32, 1..15_u32), 0..3),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let world = World::new();
            let owner = world.owner();
            for (after, length) in outages {
                let store = Arc::clone(&world.store);
                tokio::spawn(async move {
                    sleep(after * SECOND).await;
                    store.away_for(length * SECOND);
                });
            }
            let calls = owners.into_iter().map(|(after, length)| {
                let (owner, world) = (&owner, &world);
                async move {
                    sleep(after * SECOND).await;
                    owner.once("o-7", || world.work(length * SECOND)).await
                }
            });
            let mut calls: Vec<_> = calls.map(Box::pin).collect();
            let mut ended = Vec::new();
            std::future::poll_fn(|context| {
                calls.retain_mut(|call| match call.as_mut().poll(context) {
                    std::task::Poll::Ready(end) => {
                        ended.push(end);
                        false
                    }
                    std::task::Poll::Pending => true,
                });
                if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            let fresh = ended.iter().flatten().filter(|it| !it.repeated).count();
            prop_assert!(world.effects() <= 1, "{ended:?}");
            prop_assert_eq!(fresh, world.effects() as usize);
            Ok(())
        })?;
    }
}
