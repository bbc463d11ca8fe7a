//! What a host's metrics say of attempts, of what waits, of dead letters, of requests that fail and of depths; and that nobody can make up values of their labels without an end.

use std::collections::BTreeSet;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, serve};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::policies::Rule;
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::{Worker, numbered, status};

const METRICS: [&str; 2] = ["--metrics", "127.0.0.1:0"];

async fn scrape(running: &Running) -> Scrape {
    Scrape::of(&running.metrics()).await
}

/// Waits until the series with these labels sum up to this.
async fn until(running: &Running, name: &str, labels: &[(&str, &str)], sum: f64) {
    eventually(&format!("{name} is {sum}"), || async {
        scrape(running).await.sum(name, labels) == sum
    })
    .await;
}

#[tokio::test]
async fn attempts_waits_dead_letters_and_depths_are_measured() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    let own = ["--set", "base=1h", "--max-in-flight", "7"];
    let running = serve(&queues, &worker, &[&METRICS[..], &own].concat()).await;
    queues.send(numbered("fine", 5)).await;
    queues.send(numbered("wrong", 3)).await;
    queues.send(numbered("broken", 4)).await;
    until(&running, "backstop_waiting", &[], 4.0).await;
    until(&running, "backstop_dead_letters_total", &[], 3.0).await;
    until(&running, "backstop_attempts_count", &[], 8.0).await;
    until(&running, "backstop_in_flight", &[], 0.0).await;
    let scrape = scrape(&running).await;
    let sum = |name: &str, labels: &[(&str, &str)]| scrape.sum(name, labels);
    for (outcome, count) in [
        ("success", 5.0),
        ("failure", 7.0),
        ("unavailable", 0.0),
        ("interrupted", 0.0),
    ] {
        let of = [("outcome", outcome)];
        assert_eq!(
            sum("backstop_handler_seconds_count", &of),
            count,
            "{outcome}"
        );
    }
    for (outcome, count) in [("succeeded", 5.0), ("dead-lettered", 3.0)] {
        let first = [("outcome", outcome), ("le", "1")];
        assert_eq!(sum("backstop_attempts_bucket", &first), count, "{outcome}");
    }
    let held = [("class", "transient"), ("hold", "visibility")];
    assert_eq!(sum("backstop_waiting", &held), 4.0);
    let due = |within| sum("backstop_waiting_due", &[("within", within)]);
    assert!(due("1m") <= due("5m") && due("15m") <= due("1h"));
    assert_eq!(due("1h"), 4.0);
    let (age, next) = (
        sum("backstop_waiting_oldest_seconds", &[]),
        sum("backstop_waiting_next_due_seconds", &[]),
    );
    assert!((0.0..120.0).contains(&age), "{age}");
    assert!((0.0..=3_600.0).contains(&next), "{next}");
    let letters = [("by", "policy"), ("class", "permanent")];
    assert_eq!(sum("backstop_dead_letters_total", &letters), 3.0);
    let digests: BTreeSet<_> = scrape
        .labels("backstop_dead_letters_total")
        .into_iter()
        .map(|labels| labels["digest"].clone())
        .collect();
    let active = scrape.labels("backstop_policy_info")[0]["digest"].clone();
    assert_eq!(digests, BTreeSet::from(["none".to_owned(), active]));
    assert_eq!(sum("backstop_in_flight_limit", &[]), 7.0);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(sum("backstop_build_info", &version), 1.0);
    for lost in ["records", "log_lines"] {
        assert_eq!(sum(&format!("backstop_{lost}_dropped_total"), &[]), 0.0);
    }
    // The depths of the start: `depth-poll` is 30 s.
    for state in ["visible", "invisible", "delayed"] {
        assert_eq!(sum("backstop_queue_depth", &[("state", state)]), 0.0);
    }
    running.stop().await;
}

#[tokio::test]
async fn depths_are_read_again_at_their_pace_and_not_without_one() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let queue = |name: &str, url: &str, pace: &str| {
        format!(
            "[queues.{name}]\nurl = \"{url}\"\ndead-letter-queue = \"{}\"\nhandler = {{ http = \"{}\" }}\ngrace = \"2s\"\nsettings = {{ base = \"1h\" }}\ndepth-poll = \"{pace}\"\n",
            queues.dead_letters, worker.url
        )
    };
    let other = Queues::standard(&ministack().endpoint, &[]).await;
    let text = format!(
        "endpoint-url = \"{}\"\nmetrics = \"127.0.0.1:0\"\n{}{}",
        queues.endpoint,
        queue("often", &queues.url, "5s"),
        queue("never", &other.url, "0s"),
    );
    std::fs::write(&path, text).unwrap();
    let running = Running::start(&["--config", path.to_str().unwrap()]).await;
    queues.send(numbered("broken", 3)).await;
    queues.send(numbered("wrong", 2)).await;
    other.send(numbered("broken", 3)).await;
    let often = [("queue", "often")];
    let invisible = [("queue", "often"), ("state", "invisible")];
    until(&running, "backstop_queue_depth", &invisible, 3.0).await;
    until(&running, "backstop_dead_letter_queue_depth", &often, 2.0).await;
    let scrape = scrape(&running).await;
    let never = [("queue", "never")];
    assert_eq!(scrape.sum("backstop_queue_depth", &never), 0.0);
    assert_eq!(scrape.sum("backstop_waiting", &never), 3.0);
    running.stop().await;
}

#[tokio::test]
async fn a_group_of_a_fifo_queue_that_is_blocked_is_shown_with_what_stands_behind() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    let group = |name: &str, body: &str| (Some(name.to_owned()), body.to_owned());
    let worker = Worker::by_name().await;
    queues
        .send_grouped([
            group("a", "broken-a"),
            group("a", "fine-1"),
            group("a", "fine-2"),
            group("b", "fine-3"),
        ])
        .await;
    let own = ["--set", "base=1h"];
    let running = serve(&queues, &worker, &[&METRICS[..], &own].concat()).await;
    until(&running, "backstop_blocked_groups", &[], 1.0).await;
    until(&running, "backstop_blocked_messages", &[], 2.0).await;
    let attempts: Vec<_> = worker.attempts().into_iter().map(|it| it.body).collect();
    assert!(!attempts.contains(&"fine-1".to_owned()), "{attempts:?}");
    running.stop().await;
}

#[tokio::test]
async fn failed_requests_are_counted_by_operation_and_code() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    // After the checks of the start, every tenth request is throttled.
    let proxy = Proxy::start(&queues.endpoint, |_, number| match number % 10 {
        9 if number > 10 => Fault::Throttled,
        _ => Fault::None,
    })
    .await;
    let running = serve(&queues.behind(&proxy.endpoint), &worker, &METRICS).await;
    queues.send(numbered("fine", 200)).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    eventually("a request has failed", || async {
        let throttled = [("code", "RequestThrottled")];
        let scrape = scrape(&running).await;
        scrape.sum("backstop_sqs_errors_total", &throttled) >= 1.0
    })
    .await;
    let scrape = scrape(&running).await;
    for labels in scrape.labels("backstop_sqs_errors_total") {
        let code = labels["code"].as_str();
        let is_listed = code == "other" || backstop_queue::ERROR_CODES.contains(&code);
        assert!(is_listed, "{labels:?}");
    }
    running.stop().await;
}

/// A class of its own for each error code: the third case, with the text of the code. `cart` for codes that are no class.
const MADE_UP: &str = "(if (result i32) (i32.or (i32.eqz (local.get 1)) (i32.gt_u (local.get 1) (i32.const 100))) (then (i32.const 144)) (else (i32.store8 (i32.const 176) (i32.const 3)) (i32.store (i32.const 180) (local.get 0)) (i32.store (i32.const 184) (local.get 1)) (i32.const 176)))";

#[tokio::test]
async fn a_thousand_classes_and_codes_make_no_more_series_than_one() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "600")]).await;
    // Each message fails with a code of its own.
    let worker = Worker::start(|attempt| {
        let mut answer = status(500);
        *answer.body_mut() = format!("{{\"errorType\": \"{}\"}}", attempt.body).into();
        answer
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.wat");
    let judge = "(if (result i32) (i32.and (i32.load8_u (i32.load (local.get 0))) (i32.const 1)) (then (i32.const 128)) (else (i32.const 64)))";
    let rule = Rule {
        classify: Some(MADE_UP),
        judge: Some(judge),
        delay: Some("(i32.const 3600000)"),
        ..Rule::default()
    };
    std::fs::write(&policy, rule.text()).unwrap();
    let own = ["--policy", policy.to_str().unwrap()];
    let running = serve(&queues, &worker, &[&METRICS[..], &own].concat()).await;
    let series = |scrape: &Scrape| -> usize {
        let names = scrape.types().keys();
        names.map(|name| scrape.labels(name).len()).sum()
    };
    queues.send(["made-up".to_owned()]).await;
    let settled = || async {
        let scrape = scrape(&running).await;
        let letters = scrape.sum("backstop_dead_letters_total", &[]);
        letters + scrape.sum("backstop_waiting", &[])
    };
    eventually("one has failed", || async { settled().await == 1.0 }).await;
    let before = series(&scrape(&running).await);
    queues.send(numbered("made-up", 1_000)).await;
    eventually("all have failed", || async { settled().await == 1_001.0 }).await;
    let scrape = scrape(&running).await;
    assert!(scrape.sum("backstop_dead_letters_total", &[]) > 100.0);
    assert!(scrape.sum("backstop_waiting", &[("class", "other")]) > 100.0);
    assert_eq!(series(&scrape), before);
    running.stop().await;
}
