//! Calls in virtual time.

use std::sync::atomic::Ordering::Relaxed;

use backstop_core::failure::{Error, Milliseconds};
use tokio::time::sleep;

use crate::store::{Record, Status};
use crate::test_world::{SECOND, START, World, fresh, repeated};
use crate::{Event, KeyError, OnMissingKey, OnceError};

#[tokio::test(start_paused = true)]
async fn a_repeat_returns_the_stored_result_for_one_request() {
    let world = World::new();
    let owner = world.owner();
    let first = owner.once("o-7", || world.work(SECOND)).await.unwrap();
    assert_eq!((first, world.store.requests.load(Relaxed)), (fresh(1), 2));
    let second = owner.once("o-7", || world.work(SECOND)).await.unwrap();
    assert_eq!(
        (second, world.store.requests.load(Relaxed)),
        (repeated(1), 3)
    );
    let other = owner.once("o-8", || world.work(SECOND)).await.unwrap();
    assert_eq!(other, fresh(2));
    // After 30 days the record no longer counts, whether the table has deleted it or not.
    sleep((30 * 24 * 3_600 - 10) * SECOND).await;
    let late = owner.once("o-7", || world.work(SECOND)).await.unwrap();
    assert_eq!(late, repeated(1));
    sleep(12 * SECOND).await;
    let third = owner.once("o-7", || world.work(SECOND)).await.unwrap();
    assert_eq!(third, fresh(3));
}

#[tokio::test(start_paused = true)]
async fn of_two_owners_one_works_and_the_other_hears_how_long() {
    let world = World::new();
    let owner = world.owner();
    let (first, second) = tokio::join!(
        async { owner.once("o-7", || world.work(10 * SECOND)).await },
        async {
            sleep(SECOND).await;
            owner.once("o-7", || world.work(SECOND)).await
        }
    );
    assert_eq!(first.unwrap(), fresh(1));
    let error = second.unwrap_err();
    let OnceError::InProgress { left } = error else {
        panic!("{error}")
    };
    assert!(left <= 29 * SECOND && left > 28 * SECOND, "{left:?}");
    let failure = Error::from(error);
    assert_eq!(
        (failure.code.as_str(), failure.status),
        ("InProgress", Some(503))
    );
    // Not the whole lease: most work ends long before it.
    assert_eq!(failure.retry_after, Some(Milliseconds(500)));
    assert_eq!(world.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_can_be_done_again_at_once() {
    let world = World::new();
    let owner = world.owner();
    let failed = owner
        .once("o-7", || async {
            Err::<u32, _>(Error::new("CardDeclined", ""))
        })
        .await;
    assert_eq!(Error::from(failed.unwrap_err()).code, "CardDeclined");
    assert_eq!(world.store.only(), None);
    let done = owner.once("o-7", || world.work(SECOND)).await;
    assert_eq!(done.unwrap(), fresh(1));
}

#[tokio::test(start_paused = true)]
async fn the_key_and_the_payload_come_from_the_event() {
    let world = World::new();
    let owner = world
        .builder()
        .key("/order/id")
        .validate("/order/total")
        .build()
        .unwrap();
    let event = |text: &str| Event::parse(text).unwrap();
    let first = event(r#"{"order": {"id": 7, "total": 2.50}, "attempt": 1}"#);
    let second = event(r#"{"attempt": 2, "order": {"total": 2.5, "id": 7}}"#);
    let changed = event(r#"{"order": {"id": 7, "total": 2.51}}"#);
    let done = owner.once_for(&first, || world.work(SECOND)).await;
    assert_eq!(done.unwrap(), fresh(1));
    let again = owner.once_for(&second, || world.work(SECOND)).await;
    assert_eq!(again.unwrap(), repeated(1));
    let error = owner
        .once_for(&changed, || world.work(SECOND))
        .await
        .unwrap_err();
    assert_eq!(Error::from(error).code, "IdempotencyPayloadMismatch");

    let none = event(r#"{"order": {"id": null}}"#);
    let error = owner
        .once_for(&none, || world.work(SECOND))
        .await
        .unwrap_err();
    assert!(
        matches!(error, OnceError::Key(KeyError::Missing)),
        "{error}"
    );
    let lenient = world
        .builder()
        .key("/order/id")
        .on_missing_key(OnMissingKey::NotIdempotent);
    let lenient = lenient.build().unwrap();
    for expected in [2, 3] {
        let done = lenient
            .once_for(&none, || world.work(SECOND))
            .await
            .unwrap();
        assert_eq!((done.result, done.recorded), (expected, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_of_powertools_without_a_lease_locks_until_it_expires() {
    let world = World::new();
    let owner = world.owner();
    let key = owner.key_for("o-7").unwrap().unwrap();
    let record = Record {
        status: Status::InProgress,
        expires: START.0 / 1_000 + 3_600,
        lease_until: None,
        owner: None,
        result: None,
        not_stored: None,
        validation: None,
    };
    world.store.records.put(key.as_str(), record);
    let error = owner.once("o-7", || world.work(SECOND)).await.unwrap_err();
    assert!(
        matches!(error, OnceError::InProgress { left } if left > 3_599 * SECOND),
        "{error}"
    );
    sleep(3_601 * SECOND).await;
    let done = owner.once("o-7", || world.work(SECOND)).await.unwrap();
    assert_eq!(done, fresh(1));
}
