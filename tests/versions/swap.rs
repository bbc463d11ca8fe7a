//! Policies that change or break while messages flow.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::Action;
use backstop_core::failure::Milliseconds;
use backstop_engine::{Limits, Sandbox};
use backstop_tests::aws::{Queues, text};
use backstop_tests::backstop::{read_records, serve};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::{AT_WORK, Rule, waits};
use backstop_tests::worker::{Worker, numbered};
use backstop_versions::{LivePolicy, Reload, Source, Watcher};

#[tokio::test]
async fn the_file_of_a_policy_is_swapped_while_messages_flow_and_a_bad_one_changes_nothing() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.wat");
    let judges = |reason: &str| {
        Rule {
            judge: Some("(i32.const 128)"),
            ..Rule::default()
        }
        .text()
        .replace("because\\00", &format!("{reason}\\00"))
    };
    std::fs::write(&policy, judges("version")).unwrap();
    let worker = Worker::by_name().await;
    let file = policy.to_str().unwrap().to_owned();
    let running = serve(&queues, &worker, &["--policy", &file]).await;
    let log = || running.log();
    let reason_of = async |body: &str| {
        queues.send([format!("broken-{body}")]).await;
        eventually("the dead letter is there", || async {
            queues.dead().await == 1
        })
        .await;
        let letters = queues.take_dead().await;
        text(&letters[&format!("broken-{body}")], "BackstopReason")
            .unwrap()
            .to_owned()
    };
    assert_eq!(reason_of("1").await, "version");

    std::fs::write(&policy, judges("another")).unwrap();
    eventually("the new version is in place", || async {
        log().contains("a new version of the policy is active")
    })
    .await;
    assert_eq!(reason_of("2").await, "another");

    let good = judges("renamed");
    let endless = Rule {
        judge: Some(Rule::LOOP),
        ..Rule::default()
    }
    .text();
    let refusing = Rule {
        configure: Some("(i32.const 128)"),
        judge: Some("(i32.const 128)"),
        ..Rule::default()
    }
    .text();
    for (bad, shown) in [
        (&good[..good.len() / 2], "not WebAssembly"),
        ("", "empty"),
        (endless.as_str(), "ran out of fuel"),
        (refusing.as_str(), "refuses its settings: because"),
    ] {
        std::fs::write(&policy, bad).unwrap();
        eventually(shown, || async { log().contains(shown) }).await;
        assert_eq!(
            reason_of("3").await,
            "another",
            "after a version that is {shown}"
        );
    }
    std::fs::remove_file(&policy).unwrap();
    eventually("the deletion is reported", || async {
        log().contains("can't read the policy")
    })
    .await;
    assert_eq!(reason_of("4").await, "another");

    // Written to another file and renamed, as editors and deployments do.
    let beside = folder.path().join("policy.new");
    std::fs::write(&beside, good).unwrap();
    std::fs::rename(&beside, &policy).unwrap();
    eventually("the last version is in place", || async {
        log()
            .matches("a new version of the policy is active")
            .count()
            == 2
    })
    .await;
    assert_eq!(reason_of("5").await, "renamed");
    assert_eq!(running.stop().await.0, 0);
}

#[tokio::test]
async fn the_fallback_decides_for_an_active_policy_that_breaks() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let (policy, records) = (
        folder.path().join("policy.wat"),
        folder.path().join("decisions.jsonl"),
    );
    // Passes validation and never returns when it is active.
    let trap = format!("(if {AT_WORK} (then (loop $l (br $l)))) (i32.const 128)");
    std::fs::write(
        &policy,
        Rule {
            judge: Some(&trap),
            ..Rule::default()
        }
        .text(),
    )
    .unwrap();
    let worker =
        Worker::answering(|attempt| if attempt.receive_count == 1 { 400 } else { 200 }).await;
    queues.send(numbered("m", 5)).await;
    let more = [
        "--policy",
        policy.to_str().unwrap(),
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = serve(&queues, &worker, &more).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    // Even permanent errors are not dead-lettered because of a broken policy.
    assert_eq!(
        (
            counts[0]["succeeded"].as_u64(),
            counts[0]["fallbacks"].as_u64(),
            queues.dead().await
        ),
        (Some(5), Some(5), 0)
    );
    for record in read_records(&records) {
        assert_eq!(
            (&record["by"], &record["verdict"], &record["class"]),
            (&"fallback".into(), &"retry".into(), &"permanent".into())
        );
        assert!(
            record["cause"]
                .as_str()
                .unwrap()
                .contains("ran out of fuel")
        );
    }
}

/// A config map's file is a symlink through `..data`, which a rename replaces by a link to a new folder.
#[tokio::test]
async fn a_symlink_swap_as_in_kubernetes_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (version, wait) in [("..v1", 1_000), ("..v2", 2_000)] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("policy.wat"), waits(wait)).unwrap();
    }
    symlink("..v1", at("..data")).unwrap();
    symlink("..data/policy.wat", at("policy.wat")).unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = LivePolicy::load(&sandbox, Source::path(at("policy.wat")).into()).unwrap();
    let (reload_events, mut reloads) = tokio::sync::mpsc::unbounded_channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        reload_events.send(reload).unwrap()
    })
    .unwrap();

    symlink("..v2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    let reload = tokio::time::timeout(Duration::from_secs(30), reloads.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(reload, Reload::Swapped { .. }), "{reload:?}");
    let answer = policy
        .current()
        .evaluate(&backstop_tests::failure("HTTP 503"), &Arc::default())
        .answer
        .unwrap();
    assert_eq!(
        answer.action,
        Action::Retry {
            delay: Milliseconds(2_000)
        }
    );
}
