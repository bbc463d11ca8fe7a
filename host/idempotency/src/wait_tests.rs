//! Calls that wait for work in progress elsewhere, in virtual time.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backstop_core::failure::{Error, Timestamp};
use backstop_retry::{FullJitter, Retrier};
use tokio::time::{Instant, sleep, timeout};

use super::Wait;
use crate::test_world::{SECOND, World, fresh, repeated};
use crate::{Event, LeaseEnd, OnUnknown, OnceError};

const MILLISECOND: Duration = Duration::from_millis(1);

fn in_progress(left: Duration) -> Result<(), OnceError<()>> {
    Err(OnceError::InProgress { left })
}

#[test]
fn pauses_grow_are_jittered_and_end_with_the_lease_and_the_wait() {
    let mut wait = Wait::until(Some(Timestamp(60_000)), Some(Timestamp(90_000)));
    let busy = in_progress(20 * SECOND);
    let mut pauses = (0..12).filter_map(|_| wait.pause(&busy, Timestamp(0), 0.0));
    assert_eq!(pauses.next(), Some(50 * MILLISECOND));
    assert_eq!(pauses.next(), Some(75 * MILLISECOND));
    assert_eq!(pauses.last(), Some(2 * SECOND));
    assert_eq!(
        wait.pause(&busy, Timestamp(0), 0.5),
        Some(1_500 * MILLISECOND)
    );

    let ends = in_progress(100 * MILLISECOND);
    assert_eq!(
        wait.pause(&ends, Timestamp(0), 0.0),
        Some(101 * MILLISECOND)
    );
    let bound = wait.pause(&busy, Timestamp(59_990), 0.0);
    assert_eq!(bound, Some(10 * MILLISECOND));
    assert_eq!(wait.pause(&busy, Timestamp(60_000), 0.0), None);
    assert_eq!(
        wait.pause(&Ok::<(), OnceError<()>>(()), Timestamp(0), 0.0),
        None
    );
    assert_eq!(
        Wait::until(None, None).pause(&busy, Timestamp(0), 0.0),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_follower_has_the_result_soon_after_the_owner_is_done() {
    for work in [5, 300, 8_000, 100_000] {
        let world = World::new();
        let owner = world.owner();
        let began = Instant::now();
        let (first, second) = tokio::join!(
            owner
                .once("o-7", || world.work(work * MILLISECOND))
                .into_future(),
            async {
                sleep(MILLISECOND).await;
                let follower = owner.once("o-7", || world.work(SECOND));
                let done = follower.or_wait(200 * SECOND).await;
                (done, began.elapsed())
            }
        );
        let (second, waited) = second;
        assert_eq!((first.unwrap(), second.unwrap()), (fresh(1), repeated(1)));
        let late = waited.saturating_sub(work * MILLISECOND);
        let most = (work * MILLISECOND).clamp(60 * MILLISECOND, 2_010 * MILLISECOND);
        assert!(late <= most, "{work} ms of work, {late:?} late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_bound_and_with_the_deadline() {
    let world = World::new();
    let owner = world.owner();
    let busy = owner.once("o-7", || world.work(100 * SECOND));
    let followers = async {
        sleep(SECOND).await;
        for (bound, deadline) in [(5, 60), (60, 5)] {
            let began = Instant::now();
            let call = owner.once("o-7", || world.work(SECOND));
            let call = call.or_wait(bound * SECOND).deadline(deadline * SECOND);
            let error = call.await.unwrap_err();
            assert!(matches!(error, OnceError::InProgress { .. }), "{error}");
            let waited = began.elapsed();
            assert!(waited > 4 * SECOND && waited < 6 * SECOND, "{waited:?}");
        }
    };
    let (done, ()) = tokio::join!(busy.into_future(), followers);
    assert_eq!(done.unwrap(), fresh(1));
}

#[tokio::test(start_paused = true)]
async fn a_follower_takes_over_from_an_owner_that_failed_or_crashed() {
    let world = World::new();
    let owner = world.owner();
    let failing = owner.once("o-7", || async {
        sleep(SECOND).await;
        Err::<u32, _>(Error::new("CardDeclined", ""))
    });
    let (failed, done) = tokio::join!(failing.into_future(), async {
        sleep(MILLISECOND).await;
        let follower = owner.once("o-7", || world.work(SECOND));
        follower.or_wait(60 * SECOND).await
    });
    assert!(failed.is_err());
    assert_eq!(done.unwrap(), fresh(1));

    let began = Instant::now();
    let crashed = owner.once("o-8", || world.work(60 * SECOND)).into_future();
    assert!(timeout(SECOND, crashed).await.is_err());
    let follower = owner.once("o-8", || world.work(SECOND));
    let done = follower.or_wait(60 * SECOND).await.unwrap();
    assert_eq!(done, fresh(2));
    // The lease of 30 s, and the work.
    assert!(began.elapsed() < 32 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_nobody_will_answer() {
    let world = World::new();
    let careful = world.builder().on_unknown(OnUnknown::DeadLetter);
    let careful = careful.lease(5 * SECOND).key("/id").validate("/total");
    let careful = careful.build().unwrap();
    let event = |text: &str| Event::parse(text).unwrap();
    let order = event(r#"{"id": 7, "total": 1}"#);
    let crashed = careful.once_for(&order, || world.work(60 * SECOND));
    assert!(timeout(SECOND, crashed.into_future()).await.is_err());
    let follow = async |event: &Event| {
        let call = careful.once_for(event, || world.work(SECOND));
        let began = Instant::now();
        let error = call.or_wait(60 * SECOND).await.unwrap_err();
        (error, began.elapsed())
    };
    let (error, waited) = follow(&event(r#"{"id": 7, "total": 2}"#)).await;
    assert!(matches!(error, OnceError::PayloadMismatch), "{error}");
    assert!(waited < SECOND, "{waited:?}");
    let (error, waited) = follow(&order).await;
    assert!(matches!(error, OnceError::OutcomeUnknown { .. }), "{error}");
    assert!(waited < 5 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_while_ends_no_wait() {
    let world = World::new();
    let owner = world.owner();
    let (first, second) = tokio::join!(
        owner.once("o-7", || world.work(20 * SECOND)).into_future(),
        async {
            sleep(SECOND).await;
            let follower = owner.once("o-7", || world.work(SECOND));
            let away = async {
                sleep(SECOND).await;
                world.store.away_for(10 * SECOND);
            };
            tokio::join!(follower.or_wait(60 * SECOND).into_future(), away).0
        }
    );
    assert_eq!((first.unwrap(), second.unwrap()), (fresh(1), repeated(1)));
    world.store.is_away.store(true, Relaxed);
    let error = owner
        .once("o-8", || world.work(SECOND))
        .or_wait(SECOND)
        .await;
    assert!(matches!(error, Err(OnceError::Store(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_over_before_it_began_does_not_wait() {
    let world = World::new();
    let owner = world.owner();
    let call = owner.once("o-7", || world.work(SECOND));
    let call = call.deadline(Timestamp(0)).or_wait(SECOND).await;
    assert!(
        matches!(call, Err(OnceError::LeaseEnded(LeaseEnd::Deadline))),
        "{call:?}"
    );
}

/// As the document composes them.
#[tokio::test(start_paused = true)]
async fn a_follower_in_a_retrier_does_not_wait_for_the_end_of_the_lease() {
    let world = Arc::new(World::new());
    let owner = world.builder().build().unwrap();
    let policy = FullJitter::default().base(50 * MILLISECOND).max_attempts(5);
    let retrier = Retrier::builder().policy(policy).build().unwrap();
    let call = || {
        let retried = retrier.run(|_| async {
            let work = || world.work(300 * MILLISECOND);
            owner.once("o-7", work).await.map_err(Error::from)
        });
        retried.deadline(10 * SECOND)
    };
    let began = Instant::now();
    let (one, other) = tokio::join!(call(), async {
        sleep(MILLISECOND).await;
        call().await
    });
    assert_eq!((one.unwrap(), other.unwrap()), (fresh(1), repeated(1)));
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}
