//! WebAssembly policies inside a program: loaded from every kind of source, swapped while calls wait, rolled back.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::text::chain;
use backstop_retry::wasm::{
    Catalog, Limits, PartSpec, Parts, PolicySpec, Reload, RollBack, Sandbox, Source,
};
use backstop_retry::{Error, Event, Retrier, RetrierBuilder, TestClock};
use backstop_tests::bench::Bench;
use backstop_tests::policies::{AT_WORK, Rule, waits};
use backstop_tests::registry::Registry;
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// Without a cache, so that no test sees another's versions.
fn catalog() -> Catalog {
    Catalog::from(&Sandbox::new(Limits::default()).unwrap())
}

fn file(policy: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.wat");
    std::fs::write(&path, policy).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn builder(policy: &str) -> RetrierBuilder {
    Retrier::builder().policy(policy).catalog(catalog())
}

async fn fail() -> Result<(), Error> {
    Err(Error::new("HTTP 503", "busy"))
}

#[tokio::test(start_paused = true)]
async fn a_swap_while_a_hundred_calls_wait_concerns_their_next_failure_only() {
    let (_folder, path) = file(&waits(1_000));
    let digests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&digests);
    let retrier = builder(&path)
        .max_attempts(3)
        .observe(move |event: &Event<'_>| {
            if let Event::Retrying {
                failure, evaluated, ..
            } = event
            {
                let digest = evaluated.policy[0].digest;
                seen.lock().unwrap().push((failure.attempt.get(), digest));
            }
        })
        .load()
        .await
        .unwrap();
    let started = Instant::now();
    let times = Mutex::new(Vec::new());
    let calls = (0..100).map(|_| {
        retrier.run(|attempt| {
            let waited = started.elapsed();
            times.lock().unwrap().push((attempt.number(), waited));
            fail()
        })
    });
    let swap = async {
        sleep(SECOND / 2).await;
        let live = Arc::clone(retrier.live_policy().unwrap());
        let before = live.current().digests();
        let swapped = tokio::task::spawn_blocking(move || {
            std::fs::write(&path, waits(3_000)).unwrap();
            // The watcher may have been faster.
            assert!(matches!(
                live.reload(),
                Reload::Swapped { .. } | Reload::Unchanged
            ));
            live.current().digests()
        });
        let after = swapped.await.unwrap();
        assert_ne!(before, after);
        (before[0], after[0])
    };
    let (ended, (old, new)) = tokio::join!(join_all(calls), swap);
    assert!(ended.iter().all(Result::is_err));

    let times = times.into_inner().unwrap();
    for (attempt, expected) in [(1, 0), (2, 1), (3, 4)] {
        let of = times.iter().filter(|(number, _)| *number == attempt);
        let of: Vec<_> = of.map(|(_, waited)| waited.as_secs()).collect();
        assert_eq!(of, [expected; 100], "attempt {attempt}");
    }
    let digests = digests.lock().unwrap();
    for (attempt, expected) in [(1, old), (2, new)] {
        let of = digests.iter().filter(|(number, _)| *number == attempt);
        let of: Vec<_> = of.map(|(_, digest)| *digest).collect();
        assert_eq!(of, [expected; 100], "attempt {attempt}");
    }
}

/// Waits until the active version is this one.
async fn becomes_active(retrier: &Retrier, policy: &str) {
    let digest = backstop_engine::PolicyDigest::of(policy.as_bytes());
    let live = retrier.live_policy().unwrap();
    for _ in 0..1_000 {
        if live.current().digests() == [digest] {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", live.status());
}

#[tokio::test]
async fn a_file_is_watched_and_a_version_that_breaks_is_rolled_back() {
    let (_folder, path) = file(&waits(5));
    let clock = TestClock::new();
    let retrier = builder(&path)
        .catalog(Catalog {
            roll_back: RollBack {
                broken: 3,
                ..RollBack::default()
            },
            ..catalog()
        })
        .clock(clock.clone())
        .max_attempts(2)
        .build()
        .unwrap();
    // How long a call takes whose two attempts fail.
    let takes = || {
        let before = clock.elapsed();
        clock.block_on(retrier.run(|_| fail())).unwrap_err();
        clock.elapsed() - before
    };
    assert_eq!(takes(), Duration::from_millis(5));

    let breaks = format!("(if {AT_WORK} (then unreachable)) (i32.const 9)");
    let breaks = Rule {
        delay: Some(&breaks),
        ..Rule::default()
    };
    std::fs::write(&path, breaks.text()).unwrap();
    becomes_active(&retrier, &breaks.text()).await;
    let good = backstop_engine::PolicyDigest::of(waits(5).as_bytes());
    let is_rolled_back = || retrier.live_policy().unwrap().current().digests() == [good];
    // The fallback decides. A call does not wait for the version to be switched: the next one rolls it back then.
    let mut calls = 0;
    while !is_rolled_back() {
        clock.block_on(retrier.run(|_| fail())).unwrap_err();
        calls += 1;
        assert!(calls < 1_000, "it is not rolled back");
        sleep(Duration::from_millis(if calls < 3 { 0 } else { 20 })).await;
    }
    assert_eq!(takes(), Duration::from_millis(5));
    let status = retrier.live_policy().unwrap().status();
    assert!(status.refused.is_some(), "{status:?}");

    // By hand.
    std::fs::write(&path, waits(7)).unwrap();
    becomes_active(&retrier, &waits(7)).await;
    assert_eq!(takes(), Duration::from_millis(7));
    let rolled_back = retrier.live_policy().unwrap().roll_back("a test");
    assert!(rolled_back.is_ok());
    assert_eq!(takes(), Duration::from_millis(5));
}

#[tokio::test]
async fn a_slow_policy_holds_up_only_its_own_call_and_not_the_deadline() {
    let loops = format!("(if {AT_WORK} (then {})) (i32.const 9)", Rule::LOOP);
    let loops = Rule {
        delay: Some(&loops),
        ..Rule::default()
    };
    let (_folder, path) = file(&loops.text());
    let limits = Limits {
        fuel: u64::MAX,
        time: 2 * SECOND,
        ..Limits::default()
    };
    let catalog = Catalog::from(&Sandbox::new(limits).unwrap());
    let retrier = builder(&path).catalog(catalog).load().await.unwrap();
    let started = Instant::now();
    let call = retrier.run(|_| fail()).deadline(SECOND / 2);
    let ticking = async {
        for _ in 0..10 {
            sleep(Duration::from_millis(10)).await;
        }
        started.elapsed()
    };
    let (ended, ticked) = tokio::join!(call, ticking);
    assert_eq!(
        ended.unwrap_err().end(),
        backstop_retry::End::DeadlineExceeded
    );
    assert!(ticked < SECOND / 2, "{ticked:?}");
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_policy_comes_from_a_registry_by_tag_or_pin() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:live");
    let pushed = bench.json(&["push", "orders.wasm", &url]).await;
    let pin = pushed["pin"].as_str().unwrap();
    for name in [url.clone(), format!("{url}@{pin}")] {
        // Not from async code alone: `build` may block, and must not panic.
        let retrier = builder(&name).build().unwrap();
        let error = retrier.run(|_| fail()).deadline(Duration::ZERO).await;
        assert!(error.is_err());
        let active = retrier.live_policy().unwrap().status();
        assert_eq!(active.sources, [name]);
    }
    let missing = registry.url("nothing:live");
    let error = builder(&missing).load().await.unwrap_err();
    assert!(error.to_string().contains(&missing), "{error}");
}

#[test]
fn settings_reach_the_policy_and_invalid_ones_are_rejected() {
    let clock = TestClock::new();
    let text = Rule {
        configure: Some(Rule::FIRST),
        delay: Some("(i32.const 1)"),
        ..Rule::default()
    };
    let (_folder, path) = file(&text.text());
    let retrier = builder(&path).clock(clock.clone()).set("base", "50ms");
    let retrier = retrier.max_attempts(2).build().unwrap();
    clock.block_on(retrier.run(|_| fail())).unwrap_err();
    let parts: Vec<_> = retrier.live_policy().unwrap().current().parts().collect();
    assert_eq!(parts[0].settings.to_string(), "base=50ms");

    let (_folder, path) = file(&waits(1));
    for (builder, expected) in [
        (builder(&path).set("base", "50ms"), "can't be used"),
        (builder("full-jittr"), "full-jittr"),
        (builder("ftp://host/policy"), "ftp://host/policy"),
        (builder("./missing.wasm"), "missing.wasm"),
        (
            builder("linear").set("bass", "1s"),
            "unknown setting `bass`",
        ),
    ] {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(Path::new(&path).exists());
}

#[test]
fn a_composed_policy_and_required_scenarios() {
    let clock = TestClock::new();
    let (folder, path) = file(&waits(9));
    let part = PartSpec {
        source: Source::parse(&path, Path::new("")).unwrap(),
        settings: [].into(),
    };
    let parts = Parts {
        backoff: Some(part),
        ..Parts::default()
    };
    let retrier = Retrier::builder()
        .policy(PolicySpec::Composed(parts))
        .catalog(catalog())
        .clock(clock.clone())
        .max_attempts(2);
    clock
        .block_on(retrier.build().unwrap().run(|_| fail()))
        .unwrap_err();
    assert_eq!(clock.elapsed(), Duration::from_millis(9));

    let scenarios = folder.path().join("scenarios.toml");
    let expects = |delay: &str| {
        let scenario = format!(
            "[[scenario]]\nname = \"busy\"\nfailure = {{ code = \"HTTP 503\" }}\nexpect = {{ delay = \"{delay}\" }}\n"
        );
        std::fs::write(&scenarios, scenario).unwrap();
        builder(&path).scenarios(&scenarios).build()
    };
    let passed = expects("9ms");
    assert!(passed.is_ok(), "{passed:?}");
    let refused = chain(&expects("10ms").unwrap_err());
    assert!(refused.contains("fails the scenario `busy`"), "{refused}");
}
