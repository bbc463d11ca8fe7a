//! An operator's hand on a running host: a pause that survives a restart, limits that change, a stop that takes no message along.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, read_events, serve, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::worker::{Worker, numbered};
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::Instant;

/// A host with a cache of its own, and the commands for it.
struct Host {
    running: Running,
    cache: tempfile::TempDir,
}

impl Host {
    async fn start(queues: &Queues, worker: &Worker, more: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), queues, worker, more).await
    }

    async fn start_in(
        cache: tempfile::TempDir,
        queues: &Queues,
        worker: &Worker,
        more: &[&str],
    ) -> Self {
        let own = ["--cache", cache.path().to_str().unwrap()];
        let interfaces = ["--admin", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let running = serve(queues, worker, &[&own, &interfaces[..], more].concat()).await;
        Self { running, cache }
    }

    /// The exit code and the output of a command for this host.
    async fn command(&self, arguments: &[&str]) -> (i32, String) {
        let own = ["--cache", self.cache.path().to_str().unwrap()];
        let output = command(&[arguments, &own].concat()).output().await.unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.code().unwrap(), said)
    }

    /// What a command that succeeds prints.
    async fn said(&self, arguments: &[&str]) -> String {
        let (code, said) = self.command(arguments).await;
        assert_eq!(code, 0, "{said}");
        said
    }

    /// How the only queue is served.
    async fn serving(&self) -> Value {
        let status = self.said(&["status", "--json"]).await;
        let status: Value = serde_json::from_str(&status).unwrap();
        status["queues"][0]["serving"].clone()
    }

    async fn ready(&self) -> (u16, String) {
        let url = format!("{}/readyz", self.running.admin());
        let answer = reqwest::get(url).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

/// The name of the only queue of a host without a configuration.
fn name(queues: &Queues) -> String {
    queues.url.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_pause_returns_what_was_received_survives_a_restart_and_costs_no_attempt() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "600")]).await;
    let worker = Worker::answering(|_| 200).await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    let recorded = ["--decisions", records.to_str().unwrap()];
    let host = Host::start(&queues, &worker, &recorded).await;
    let queue = name(&queues);
    let said = host
        .said(&["pause", &queue, "--why", "the till is closed"])
        .await;
    assert!(said.contains("paused until `backstop resume"), "{said}");
    // A poll under way may still bring some.
    queues.send(numbered("fine", 20)).await;
    host.running.logged("the queue is paused").await;
    let (status, ready) = host.ready().await;
    assert_eq!(status, 200, "{ready}");
    assert!(ready.contains("the till is closed"), "{ready}");
    let said = host.said(&["status"]).await;
    for part in ["is paused; begun", "the till is closed", "at most 100"] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    let scrape = Scrape::of(&host.running.metrics()).await;
    assert_eq!(scrape.sum("backstop_paused", &[]), 1.0);
    let Host { running, cache } = host;
    running.stop().await;
    assert_eq!((worker.attempts().len(), queues.held().await), (0, 20));

    let more = [&recorded[..], &["--max-attempts", "1"]].concat();
    let host = Host::start_in(cache, &queues, &worker, &more).await;
    host.running
        .logged("still paused since before this start")
        .await;
    assert_eq!(host.serving().await["paused"]["why"], "the till is closed");
    assert_eq!(worker.attempts().len(), 0);
    let said = host.said(&["resume", &queue, "--ramp", "2s"]).await;
    assert!(
        said.contains("resumed, and grows to its limit over 2s"),
        "{said}"
    );
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let said = host.said(&["resume", &queue]).await;
    assert!(said.contains("was not paused"), "{said}");
    let (_, counts) = host.running.stop().await;
    // 600 s of invisibility have not passed: everything was visible again.
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(20), 0)
    );
    // What succeeds at once has no events, and a pause that goes on after a start is the same one.
    let events = read_events(&records);
    let names: Vec<_> = events.iter().map(|it| &it["event"]).collect();
    assert_eq!(names, ["paused", "resumed"]);
    assert_eq!(events[0]["why"], "the till is closed");
}

#[tokio::test]
async fn what_is_in_hand_ends_and_what_has_not_begun_returns_when_a_queue_is_paused() {
    let queues = Queues::fifo(&ministack().endpoint, &[(Q::VisibilityTimeout, "600")]).await;
    let group = |number| (Some("g".to_owned()), format!("fine-{number}"));
    queues.send_grouped((0..5).map(group)).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let go = folder.path().join("go");
    let script = format!(
        "sh -c 'cat >> {log}; echo >> {log}; while [ ! -e {go} ]; do sleep 0.05; done'",
        log = log.display(),
        go = go.display()
    );
    let cache = tempfile::tempdir().unwrap();
    let own = ["--cache", cache.path().to_str().unwrap(), "--exec", &script];
    let running = Running::start(&[&queues.arguments()[..], &own].concat()).await;
    let host = Host { running, cache };
    eventually("the first is being handled", || async { log.exists() }).await;
    let queue = name(&queues);
    host.said(&["pause", &queue, "--for", "1h"]).await;
    assert_eq!(host.serving().await["in-flight"], 5);
    std::fs::write(&go, "").unwrap();
    eventually("nothing is in hand", || async {
        host.serving().await["in-flight"] == 0
    })
    .await;
    assert_eq!(std::fs::read_to_string(&log).unwrap().trim(), "fine-0");
    let (_, counts) = host.running.stop().await;
    assert_eq!(
        (
            counts[0]["succeeded"].as_u64(),
            counts[0]["handed-back"].as_u64() >= Some(4)
        ),
        (Some(1), true),
        "{counts:?}"
    );
    assert_eq!(queues.take_left().await.len(), 4);
}

#[tokio::test]
async fn limits_change_while_the_queue_is_served() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|_| 200).await;
    let host = Host::start(&queues, &worker, &[]).await;
    let queue = name(&queues);
    host.said(&["set", &queue, "rate=10/s"]).await;
    assert_eq!(host.serving().await["rate"], "10/s");
    queues.send(numbered("fine", 60)).await;
    eventually("some are done", || async { worker.attempts().len() >= 30 }).await;
    let attempts = worker.attempts();
    // Ten were saved up, and one poll may be ahead.
    let took = attempts[29].at.duration_since(attempts[0].at);
    assert!(took >= Duration::from_millis(900), "{took:?}");
    let said = host
        .said(&["set", &queue, "rate=none", "max-in-flight=7"])
        .await;
    assert!(said.contains("at most 7, at any rate"), "{said}");
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let serving = host.serving().await;
    assert_eq!(
        (&serving["max-in-flight"], &serving["rate"]),
        (&7.into(), &Value::Null)
    );
    host.running.logged("a limit was changed").await;
    for (arguments, expected) in [
        (
            &["set", &queue, "rate=fast"][..],
            "expected a whole number of messages",
        ),
        (&["set", &queue, "max-in-flight=0"], "1 to 100000"),
        (&["set", "nobody", "rate=1/s"], "no running host serves"),
        (&["pause", "nobody"], "no running host serves"),
        (&["pause", &queue, "--for", "0s"], "1 second to 14 days"),
    ] {
        let (code, said) = host.command(arguments).await;
        let expected_code = if arguments.contains(&"rate=fast") {
            2
        } else {
            5
        };
        assert!(
            code == expected_code && said.contains(expected),
            "{code}: {said}"
        );
    }
    host.running.stop().await;
}

#[tokio::test]
async fn an_idle_host_ends_within_its_poll_and_a_drain_waits_for_it() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|_| 200).await;
    for is_drain in [false, true] {
        let host = Host::start(&queues, &worker, &["--grace", "25s"]).await;
        eventually("it polls", || async {
            Scrape::of(&host.running.metrics())
                .await
                .sum("backstop_polls", &[])
                == 1.0
        })
        .await;
        let started = Instant::now();
        if is_drain {
            let said = host.said(&["drain"]).await;
            assert!(
                said.contains("stops, with messages in hand: 0 of"),
                "{said}"
            );
            assert!(said.contains("ended after"), "{said}");
        } else {
            host.running.signal(Signal::TERM);
        }
        let (code, _) = host.running.ended().await;
        // Its poll of 2 s, and the end of the process.
        let took = started.elapsed();
        assert!(code == 0 && took < Duration::from_secs(4), "{took:?}");
    }
}

#[tokio::test]
async fn a_host_that_ends_at_once_still_answers_the_drain() {
    let cache = tempfile::tempdir().unwrap();
    let own = ["--cache", cache.path().to_str().unwrap()];
    let queue = ["--queue-url", "local:orders", "--exec", "true"];
    let running = Running::start(&[&queue[..], &own].concat()).await;
    let host = Host { running, cache };
    let said = host.said(&["drain"]).await;
    assert!(
        said.contains("0 of local:orders") || said.contains("0 of orders"),
        "{said}"
    );
    assert_eq!(host.running.ended().await.0, 0);
}
