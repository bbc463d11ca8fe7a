//! Requests that arrive when nobody expects them any more, and clocks that are set, in virtual time.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Error;
use backstop_core::idempotency::RecordFormat;
use tokio::time::{Instant, sleep};

use crate::store::{Claim, Claimed, Completion, Renewal, Status, Store, StoreError};
use crate::test_world::{SECOND, START, World, fresh};
use crate::{Idempotency, LeaseEnd, MemoryStore, OnceError};

/// A store that answers the second claim too late, and carries out its release when the test says so.
#[derive(Debug, Default)]
struct Late {
    records: MemoryStore,
    claims: Mutex<u32>,
    released: Mutex<Vec<(String, String)>>,
}

#[async_trait]
impl Store for Late {
    fn format(&self) -> RecordFormat {
        self.records.format()
    }

    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let claims = {
            let mut claims = self.claims.lock().unwrap();
            *claims += 1;
            *claims
        };
        if claims == 2 {
            return Err(StoreError::timeout());
        }
        self.records.claim(claim).await
    }

    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError> {
        self.records.renew(renewal).await
    }

    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError> {
        self.records.complete(completion).await
    }

    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError> {
        let late = (key.to_owned(), owner.to_owned());
        self.released.lock().unwrap().push(late);
        Err(StoreError::timeout())
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_arrives_late_does_not_delete_the_record_of_a_later_claim() {
    let store = Arc::new(Late::default());
    let owner = Idempotency::builder(Arc::clone(&store), "orders");
    let owner = owner.lease(SECOND).build().unwrap();
    let key = owner.key_for("o-7").unwrap().unwrap();
    let world = World::new();
    // An owner that is gone soon: the call below has to wait for it.
    let crashed = Claim {
        key: key.as_str(),
        owner: "crashed",
        now: START,
        lease_until: backstop_core::clock::now().plus(SECOND),
        expires: 4_000_000_000,
        validation: None,
        take_over: true,
    };
    let work = || async {
        let late = store.released.lock().unwrap().clone();
        assert_eq!(late.len(), 1);
        for (key, owner) in late {
            store.records.release(&key, &owner).await.unwrap();
        }
        world.work(Duration::ZERO).await
    };
    store.records.claim(&crashed).await.unwrap();
    let waits = owner.once("o-7", work).or_wait(60 * SECOND).into_future();
    let (done, ()) = tokio::join!(waits, async {
        sleep(40 * Duration::from_millis(1)).await;
        store.records.delete(key.as_str());
    });
    assert_eq!(done.unwrap(), fresh(1));
    let record = store.records.get(key.as_str()).unwrap();
    assert_eq!(record.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_moves_no_deadline_and_costs_no_lease() {
    let world = World::new();
    let hour = 3_600_000;
    world.clock.ahead.store(hour, Relaxed);
    let owner = world.owner();
    let set_back = || async {
        sleep(SECOND).await;
        world.clock.ahead.store(0, Relaxed);
        world.work(99 * SECOND).await
    };
    let began = Instant::now();
    let late = owner.once("o-7", set_back).deadline(50 * SECOND);
    let error = late.await.unwrap_err();
    assert!(
        matches!(error, OnceError::LeaseEnded(LeaseEnd::Deadline)),
        "{error}"
    );
    assert_eq!(began.elapsed().as_secs(), 50);

    world.clock.ahead.store(hour, Relaxed);
    let (done, ()) = tokio::join!(owner.once("o-8", set_back).into_future(), async {
        sleep(90 * SECOND).await;
        let key = owner.key_for("o-8").unwrap().unwrap();
        let lease = world.store.records.get(key.as_str()).unwrap().lease_until;
        // As those see it whose clock was not set back.
        let now = START.plus(Duration::from_millis(hour) + world.clock.start.elapsed());
        assert!(lease > Some(now), "{lease:?} {now:?}");
    });
    assert_eq!(done.unwrap(), fresh(1));
}

#[tokio::test(start_paused = true)]
async fn a_record_counts_for_as_long_as_its_renewed_lease() {
    let world = World::new();
    let owner = world.builder().lease(30 * SECOND).expires_after(SECOND);
    let owner = owner.build().unwrap();
    let look = || async {
        for _ in 0..50 {
            sleep(SECOND).await;
            let record = world.store.only().unwrap();
            let lease = record.lease_until.unwrap();
            assert!(record.expires * 1_000 >= lease.0, "{record:?}");
        }
        Ok::<_, Error>(1)
    };
    assert_eq!(owner.once("o-7", look).await.unwrap(), fresh(1));
}
