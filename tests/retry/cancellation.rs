//! A call with a WebAssembly policy, dropped in each of its states.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop_retry::wasm::{Catalog, Limits, Sandbox};
use backstop_retry::{Attempt, Budget, Error, Retrier};
use backstop_tests::policies::{AT_WORK, Rule};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Where the call is when it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Attempt,
    Evaluation,
    Wait,
}

/// A retrier whose policy answers a delay of 1 ms, and after this attempt a minute, or nothing in time.
async fn retrier(folder: &TempDir, at: At, attempt: u32, budget: &Budget) -> Retrier {
    // After the pointers and lengths of the id and the source.
    let number = "(i32.load offset=16 (local.get 0))";
    let held = match at {
        At::Evaluation => Rule::LOOP,
        At::Start | At::Attempt | At::Wait => "(return (i32.const 60000))",
    };
    let is_held = format!("(i32.and {AT_WORK} (i32.eq {number} (i32.const {attempt})))");
    let delay = format!("(if {is_held} (then {held})) (i32.const 1)");
    let rule = Rule {
        delay: Some(&delay),
        ..Rule::default()
    };
    let path = folder.path().join("policy.wat");
    std::fs::write(&path, rule.text()).unwrap();
    let limits = Limits {
        fuel: u64::MAX,
        time: 5 * SECOND,
        ..Limits::default()
    };
    Retrier::builder()
        .policy(path.to_str().unwrap())
        .catalog(Catalog::from(&Sandbox::new(limits).unwrap()))
        .budget(budget)
        .load()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_dropped_call_gives_back_what_it_has_not_sent_in_every_state() {
    let folder = tempfile::tempdir().unwrap();
    for (at, attempt, left) in [
        (At::Start, 1, 500.0),
        (At::Attempt, 1, 500.0),
        (At::Evaluation, 1, 500.0),
        (At::Wait, 1, 500.0),
        // The first retry was sent.
        (At::Attempt, 2, 490.0),
        (At::Evaluation, 2, 490.0),
        (At::Wait, 2, 490.0),
    ] {
        let budget = Budget::aws_2_0();
        let retrier = retrier(&folder, at, attempt, &budget).await;
        let made = Arc::<AtomicU32>::default();
        let call = retrier.run(|this: Attempt| {
            made.store(this.number(), Ordering::Relaxed);
            async move {
                if at == At::Attempt && this.number() == attempt {
                    pending().await
                } else {
                    Err::<(), _>(Error::new("HTTP 503", "busy"))
                }
            }
        });
        let started = Instant::now();
        if at == At::Start {
            drop(call);
        } else {
            let dropped = timeout(SECOND, call).await;
            assert!(dropped.is_err(), "{at:?} {attempt}: {dropped:?}");
            assert_eq!(made.load(Ordering::Relaxed), attempt, "{at:?}");
        }
        assert!(started.elapsed() < 4 * SECOND, "{at:?}: held up");
        assert_eq!(budget.left(), left, "{at:?} {attempt}");
    }
}
