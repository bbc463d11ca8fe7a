//! Two owners of one key, and a store that fails: one effect for each key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_idempotency::{Completed, Idempotency, OnceError, RecordFormat};
use backstop_tests::emulator::{Emulator, ministack, moto};
use backstop_tests::idempotency::Records;
use backstop_tests::proxy::{Fault, Proxy};
use futures_util::{StreamExt, stream};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

type Effects = Arc<Mutex<BTreeMap<u32, u32>>>;

/// Calls until the result is there, as a consumer with a policy would.
async fn persist(owner: &Idempotency, key: u32, effects: &Effects) -> Completed<u32> {
    loop {
        let work = || async {
            sleep(Duration::from_millis(2)).await;
            *effects.lock().unwrap().entry(key).or_default() += 1;
            Ok::<_, Error>(key)
        };
        let wait = match owner.once(&key, work).await {
            Ok(done) => return done,
            Err(OnceError::InProgress { left }) => left.min(SECOND / 4),
            Err(OnceError::Store(_)) => SECOND / 20,
            Err(error) => panic!("{key}: {error}"),
        };
        sleep(wait).await;
    }
}

/// Two owners with all keys, in opposite order.
async fn both(emulator: &Emulator, keys: u32, concurrency: usize, format: RecordFormat) {
    // Each kind of fault again and again, at places that shift.
    let proxy = Proxy::start(&emulator.endpoint, |_, number| match number % 97 {
        5 => Fault::Throttled,
        23 => Fault::ServerError,
        41 => Fault::LateServerError,
        59 => Fault::Cut,
        77 => Fault::Slow,
        _ => Fault::None,
    })
    .await;
    let table = Records::create(&emulator.endpoint).await;
    let store = table.store_behind(&proxy.endpoint, format).await;
    let owner = Idempotency::builder(store, "orders").lease(3 * SECOND);
    let owner = owner.build().unwrap();
    let effects = Effects::default();
    let all = |order: Vec<u32>| {
        let calls = stream::iter(order).map(|key| persist(&owner, key, &effects));
        calls.buffer_unordered(concurrency).collect::<Vec<_>>()
    };
    let (one, other) = tokio::join!(all((0..keys).collect()), all((0..keys).rev().collect()));
    let effects = effects.lock().unwrap().clone();
    assert_eq!(effects.len(), keys as usize, "{}", emulator.name);
    let twice: Vec<_> = effects.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{}: {twice:?}", emulator.name);
    let fresh = one.iter().chain(&other).filter(|it| !it.repeated).count();
    assert_eq!(fresh, keys as usize, "{}", emulator.name);
    assert!(one.iter().chain(&other).all(|it| it.recorded));
    let counts = table.count().await;
    assert_eq!(
        counts,
        BTreeMap::from([("COMPLETED".to_owned(), keys as usize)])
    );
}

#[tokio::test]
async fn two_owners_of_a_thousand_keys_have_one_effect_each() {
    both(ministack(), 1_000, 16, RecordFormat::Python).await;
}

/// moto serves one client at a time.
#[tokio::test]
async fn two_owners_have_one_effect_each_on_another_emulator() {
    both(moto(), 200, 1, RecordFormat::TypeScript).await;
}

#[tokio::test]
async fn a_store_that_is_gone_for_ten_seconds_makes_nothing_happen_twice() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let proxy = Proxy::start(&ministack().endpoint, move |_, number| {
        match (gone.load(Ordering::SeqCst), number % 3) {
            (false, _) => Fault::None,
            (true, 0) => Fault::Hanging,
            (true, 1) => Fault::ServerError,
            (true, _) => Fault::Throttled,
        }
    })
    .await;
    let table = Records::create(&ministack().endpoint).await;
    // Renewed during the outage; and one that is not.
    for (lease, key) in [(6, 1_u32), (60, 2)] {
        let owner = owner_with(&table, &proxy, lease).await;
        let effects = Arc::new(AtomicU32::new(0));
        let (first, seen) = (owner.clone(), Arc::clone(&effects));
        is_gone.store(false, Ordering::SeqCst);
        let work = tokio::spawn(async move {
            let work = || async {
                sleep(3 * SECOND).await;
                seen.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Error>(key)
            };
            first.once(&key, work).await
        });
        sleep(SECOND).await;
        is_gone.store(true, Ordering::SeqCst);
        let until = tokio::time::Instant::now() + 10 * SECOND;
        while tokio::time::Instant::now() < until {
            let call = owner.once(&key, || async { Ok::<u32, Error>(0) });
            let refused = call.await.unwrap_err();
            assert!(matches!(refused, OnceError::Store(_)), "{refused}");
            sleep(SECOND / 2).await;
        }
        is_gone.store(false, Ordering::SeqCst);
        let done = timeout(20 * SECOND, work).await.unwrap().unwrap();
        // The work was over before its lease was, so it is recorded when the store is back.
        let done = done.unwrap();
        assert!(done.recorded && !done.repeated);
        let again = owner.once(&key, || async { Ok::<u32, Error>(0) }).await;
        let again = again.unwrap();
        assert_eq!((again.result, again.repeated), (key, true));
        assert_eq!(effects.load(Ordering::SeqCst), 1);
    }
}

async fn owner_with(table: &Records, proxy: &Proxy, lease: u32) -> Idempotency {
    let store = table
        .store_behind(&proxy.endpoint, RecordFormat::Python)
        .await;
    let owner = Idempotency::builder(store, "orders");
    let owner = owner.request_timeout(SECOND).lease(lease * SECOND);
    owner.build().unwrap()
}

/// Otherwise attempts would multiply under a policy.
#[tokio::test]
async fn the_client_makes_one_attempt_unless_its_retries_are_wanted() {
    for (wants_retries, expected) in [(false, 1), (true, 3)] {
        let proxy = Proxy::start(&ministack().endpoint, |_, _| Fault::Throttled).await;
        let table = Records::create(&ministack().endpoint).await;
        let store = table
            .store_behind(&proxy.endpoint, RecordFormat::Python)
            .await;
        let store = if wants_retries {
            store.client_retries()
        } else {
            store
        };
        let owner = Idempotency::builder(store, "orders").build().unwrap();
        let call = owner.once("o-7", || async { Ok::<u32, Error>(0) });
        let refused = call.await.unwrap_err();
        assert!(matches!(refused, OnceError::Store(_)), "{refused}");
        assert_eq!(proxy.requests(), expected, "{refused}");
    }
}
