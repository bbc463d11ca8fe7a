//! A policy file that is swapped while a hundred retriers wait, with real calls of a real service.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::PolicyDigest;
use backstop_retry::wasm::{Catalog, Limits, Sandbox};
use backstop_retry::{Event, Retrier};
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use backstop_tests::proxy::Fault;
use futures_util::future::{join_all, try_join_all};

use crate::services::{Service, Sqs, behind};

const RETRIERS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_retriers_wait_while_their_policy_file_is_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.wat");
    // Longer than the swap takes.
    let (old, new) = (waits(8_000), waits(7));
    std::fs::write(&path, &old).unwrap();

    // The first request of each, and as many later ones.
    let throttled = vec![Fault::Throttled; 2 * RETRIERS];
    let (service, proxy) = behind::<Sqs>(&throttled, Fault::None).await;
    let catalog = Catalog::from(&Sandbox::new(Limits::default()).unwrap());
    let decided = Arc::<Mutex<Vec<_>>>::default();
    let retriers = (0..RETRIERS).map(|_| {
        let decided = Arc::clone(&decided);
        Retrier::builder()
            .policy(path.to_str().unwrap())
            .catalog(catalog.clone())
            .observe(move |event: &Event<'_>| {
                if let Event::Retrying {
                    failure,
                    evaluated,
                    delay,
                    ..
                } = event
                {
                    let attempt = failure.attempt.get();
                    let digest = evaluated.policy[0].digest;
                    decided.lock().unwrap().push((attempt, digest, *delay));
                }
            })
            .load()
    });
    let retriers = try_join_all(retriers).await.unwrap();

    let calls = join_all(
        retriers
            .iter()
            .map(|retrier| retrier.run(|_| service.call())),
    );
    let swap = async {
        eventually("every retrier waits", || async {
            decided.lock().unwrap().len() == RETRIERS
        })
        .await;
        // As a deployment writes it: a reader sees the old file or the new one.
        let next = folder.path().join("next");
        std::fs::write(&next, &new).unwrap();
        std::fs::rename(&next, &path).unwrap();
        let active = PolicyDigest::of(new.as_bytes());
        eventually("every retrier has the new version", || async {
            let has = |it: &Retrier| it.live_policy().unwrap().current().digests() == [active];
            retriers.iter().all(has)
        })
        .await;
        assert_eq!(proxy.requests(), RETRIERS as u64, "the swap took too long");
    };
    let (ended, ()) = tokio::join!(calls, swap);
    assert!(ended.iter().all(Result::is_ok));
    assert_eq!(proxy.requests(), 3 * RETRIERS as u64);
    let decided = decided.lock().unwrap();
    for (is_first, policy, delay) in [(true, &old, 8_000), (false, &new, 7)] {
        // Whose later requests are throttled is a matter of luck.
        let of = decided
            .iter()
            .filter(|(attempt, ..)| (*attempt == 1) == is_first);
        let of: Vec<_> = of.map(|(_, digest, delay)| (*digest, *delay)).collect();
        let digest = PolicyDigest::of(policy.as_bytes());
        assert_eq!(of, [(digest, Duration::from_millis(delay)); RETRIERS]);
    }
}
