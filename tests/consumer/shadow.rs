//! Shadow policies: their decisions are compared, counted and recorded. Whatever a shadow does, the live policy decides as it would without it.

use std::path::Path;
use std::time::Duration;

use backstop_decider::shadow::SETTLE_TIMEOUT;
use backstop_queue::Queue;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, read_records, run as backstop, serve, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::policies::{AT_WORK, Rule};
use backstop_tests::worker::{Worker, numbered};
use backstop_tests_host::retry_world::Plan;
use serde_json::{Value, json};

const LIVE: [&str; 4] = ["--policy", "linear", "--set", "base=1ms"];

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A policy that passes validation and executes `body` when it is active.
fn when_active(body: &str) -> String {
    let judge = format!("(if {AT_WORK} (then {body})) {}", Rule::FIRST);
    Rule {
        configure: Some(Rule::FIRST),
        judge: Some(&judge),
        ..Rule::default()
    }
    .text()
}

/// A policy that accepts any settings and delays by this long.
fn waits(milliseconds: u32) -> String {
    Rule {
        configure: Some(Rule::FIRST),
        delay: Some(&format!("(i32.const {milliseconds})")),
        ..Rule::default()
    }
    .text()
}

#[tokio::test]
async fn differences_are_counted_in_records_metrics_and_summary_and_only_the_live_policy_acts() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    let candidate = Rule {
        configure: Some(Rule::FIRST),
        classify: Some(Rule::PERMANENT),
        judge: Some(Rule::FIRST),
        delay: Some("(i32.const 3600000)"),
        ..Rule::default()
    };
    let candidate = write(folder.path(), "candidate.wat", &candidate.text());
    let worker = Worker::by_name().await;
    queues.send(numbered("flaky", 4)).await;
    queues.send(numbered("wrong", 3)).await;
    let more = [
        "--shadow",
        &candidate,
        "--shadow-set",
        "none=needed",
        "--metrics",
        "127.0.0.1:0",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = serve(&queues, &worker, &[&LIVE[..], &more].concat()).await;
    // If the shadow's decisions were applied, each would take an hour.
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let url = running.metrics();
    let differed = [("result", "differed")];
    eventually("all are compared", || async {
        Scrape::of(&url)
            .await
            .sum("backstop_shadow_comparisons_total", &differed)
            >= 11.0
    })
    .await;
    let scrape = Scrape::of(&url).await;
    for (name, label, value, expected) in [
        (
            "backstop_shadow_comparisons_total",
            "result",
            "differed",
            11.0,
        ),
        ("backstop_shadow_comparisons_total", "result", "agreed", 0.0),
        ("backstop_shadow_differences_total", "in", "class", 8.0),
        ("backstop_shadow_differences_total", "in", "delay", 8.0),
        ("backstop_shadow_differences_total", "in", "verdict", 3.0),
        ("backstop_messages_total", "outcome", "succeeded", 4.0),
        ("backstop_messages_total", "outcome", "retried", 8.0),
        ("backstop_messages_total", "outcome", "dead-lettered", 3.0),
        ("backstop_decisions_total", "verdict", "retry", 8.0),
        ("backstop_decisions_total", "class", "permanent", 3.0),
        ("backstop_decisions_total", "by", "policy", 11.0),
        ("backstop_policy_info", "role", "live", 1.0),
        ("backstop_policy_info", "role", "shadow", 1.0),
    ] {
        assert_eq!(
            scrape.sum(name, &[(label, value)]),
            expected,
            "{name} {value}"
        );
    }
    assert_eq!(scrape.sum("backstop_decision_seconds_count", &[]), 11.0);
    assert_eq!(
        scrape.sum("backstop_shadow_decision_seconds_count", &[]),
        11.0
    );
    assert_eq!(
        scrape.sum("backstop_delay_seconds_bucket", &[("le", "1")]),
        8.0
    );
    assert!(scrape.sum("backstop_sqs_requests_total", &[("request", "receive")]) >= 1.0);
    for metric in backstop_telemetry::METRICS {
        for labels in scrape.labels(metric.name) {
            let names: Vec<_> = labels.keys().map(String::as_str).collect();
            let mut expected = metric.labels.to_vec();
            expected.sort_unstable();
            assert_eq!(names, expected, "{}", metric.name);
        }
    }
    for name in scrape.types().keys() {
        let mut known = backstop_telemetry::METRICS.iter();
        assert!(known.any(|metric| metric.name == name), "{name}");
    }

    let (code, counts) = running.stop().await;
    assert_eq!((code, queues.dead().await), (0, 3));
    assert_eq!(
        counts[0]["shadow"],
        json!({
            "agreed": 0, "differed": 11, "differed-in-class": 8, "differed-in-verdict": 3,
            "differed-in-delay": 8, "differed-in-reason": 0, "differed-in-outage": 0,
            "broken": 0, "skipped": 0,
        })
    );
    let records = read_records(&records);
    assert_eq!(records.len(), 11);
    for record in &records {
        let shadow = &record["shadow"];
        assert_eq!(shadow["policy"][0]["settings"], json!([["none", "needed"]]));
        assert_eq!(shadow["agrees"], json!(false));
        assert_eq!(shadow["class"], json!("permanent"));
        assert_eq!(shadow["delay"], json!(3_600_000));
        let expected = if record["verdict"] == "retry" {
            json!(["class", "delay"])
        } else {
            json!(["verdict"])
        };
        assert_eq!(shadow["differs"], expected, "{record}");
    }
}

/// Runs ten messages that fail twice and five that fail permanently, on a local queue. Returns the counts, the records and the log.
async fn run(folder: &Path, more: &[&str]) -> (Value, Vec<Value>, String) {
    let worker = Worker::by_name().await;
    let bodies = [numbered("flaky", 10), numbered("wrong", 5)].concat();
    let messages = write(folder, "messages", &bodies.join("\n"));
    let records = folder.join("decisions.jsonl");
    let _ = std::fs::remove_file(&records);
    let arguments = [
        "run",
        "--json",
        "--queue-url",
        "local:orders",
        "--http",
        &worker.url,
        "--messages",
        &messages,
        "--decisions",
        records.to_str().unwrap(),
    ];
    let output = backstop(&[&arguments[..], &LIVE, more].concat()).await;
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    let counts = serde_json::from_slice(&output.stdout).unwrap();
    (counts, read_records(&records), log)
}

/// The applied decisions, sorted.
fn applied(records: &[Value]) -> Vec<String> {
    let summary = |record: &Value| {
        let parts = ["by", "class", "verdict", "delay", "reason"];
        let parts = parts.map(|part| record[part].to_string());
        format!("{} {}", record["failure"]["attempt"], parts.join(" "))
    };
    let mut all: Vec<_> = records.iter().map(summary).collect();
    all.sort_unstable();
    all
}

/// The 99th percentile of the evaluation times, in microseconds.
fn p99(records: &[Value]) -> u64 {
    let mut times: Vec<_> = records
        .iter()
        .map(|record| record["took-us"].as_u64().unwrap())
        .collect();
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

#[tokio::test]
async fn a_shadow_that_would_do_the_same_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let (counts, records, _) = run(folder.path(), &["--shadow", "linear"]).await;
    assert_eq!(counts["shadow"]["agreed"], json!(25), "{counts}");
    assert_eq!(counts["shadow"]["differed"], json!(0));
    for record in records {
        assert_eq!(record["shadow"]["agrees"], json!(true), "{record}");
        assert_eq!(record["shadow"]["differs"], json!([]));
        assert_eq!(record["shadow"]["policy"], record["policy"]);
    }
    let (counts, records, _) = run(folder.path(), &[]).await;
    assert!(counts.get("shadow").is_none() && records[0].get("shadow").is_none());
}

#[tokio::test]
async fn no_shadow_changes_the_live_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let (without, expected, _) = run(folder.path(), &[]).await;
    let expected_p99 = p99(&expected);
    assert_eq!(expected.len(), 25);
    let flood = "(loop $l (call $log (i32.const 0) (i32.const 2048) (i32.const 7)) (br $l))";
    let grows = "(loop $l (drop (memory.grow (i32.const 100))) (br $l))";
    let rejected = Rule {
        configure: Some(Rule::FIRST),
        judge: Some(Rule::LOOP),
        ..Rule::default()
    };
    for (name, shadow, expected_log) in [
        (
            "loops forever",
            when_active("(loop $l (br $l))"),
            "ran out of fuel",
        ),
        ("traps", when_active("(unreachable)"), "unreachable"),
        ("floods its log", when_active(flood), "moved more than"),
        ("takes all memory", when_active(grows), "logged once"),
        (
            "recurses",
            when_active("(drop (call $recurse (i32.const 0)))"),
            "logged once",
        ),
        (
            "is not WebAssembly",
            "garbage".to_owned(),
            "can't be evaluated until",
        ),
        (
            "fails the probe",
            rejected.text(),
            "can't be evaluated until",
        ),
    ] {
        let shadow = write(folder.path(), "candidate.wat", &shadow);
        let (counts, records, log) = run(folder.path(), &["--shadow", &shadow]).await;
        println!(
            "a shadow that {name}: p99 of the live decisions {} us, {expected_p99} us without; {}",
            p99(&records),
            counts["shadow"],
        );
        assert_eq!(applied(&records), applied(&expected), "{name}");
        for count in ["succeeded", "dead-lettered", "unsettled", "fallbacks"] {
            assert_eq!(counts[count], without[count], "{name}: {count}");
        }
        let of = |count: &str| counts["shadow"][count].as_u64().unwrap();
        assert_eq!(of("broken") + of("skipped"), 25, "{name}: {counts}");
        assert!(of("broken") > 0, "{name}: {counts}");
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains("the shadow"))
            .collect();
        assert!((1..=2).contains(&lines.len()), "{name}: {log}");
        // On a busy machine, the limit of time may come before the others.
        let is_expected = [expected_log, "was stopped after"];
        let is_expected = is_expected.iter().any(|it| lines[0].contains(it));
        assert!(is_expected, "{name}: {log}");
        for record in &records {
            let shadow = &record["shadow"];
            let results = [&shadow["broken"], &shadow["skipped"]];
            assert!(results.iter().any(|it| it.is_string()), "{name}: {record}");
        }
    }
    let missing = folder.path().join("none.wasm");
    let missing = missing.to_str().unwrap();
    let (counts, records, log) = run(folder.path(), &["--shadow", missing]).await;
    assert_eq!(
        (records.len(), &counts["shadow"]["broken"]),
        (25, &json!(25))
    );
    assert!(log.contains("the shadow can't be evaluated until"), "{log}");
}

#[tokio::test]
async fn a_hanging_shadow_delays_no_message_and_loses_no_record() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "candidate.wat",
        &when_active("(loop $l (br $l))"),
    );
    let worker = Worker::by_name().await;
    let config = format!(
        "endpoint-url = \"{}\"\ndecisions = {{ record = \"decisions.jsonl\" }}\nlimits = {{ fuel = 1_000_000_000_000_000, time = \"1h\" }}\n[queues.orders]\nurl = \"{}\"\ndead-letter-queue = \"{}\"\nhandler = {{ http = \"{}\" }}\npolicy = \"linear\"\nshadow = \"candidate.wat\"\n",
        queues.endpoint, queues.url, queues.dead_letters, worker.url
    );
    let config = write(folder.path(), "backstop.toml", &config);
    queues.send(numbered("wrong", 5)).await;
    let running = Running::start(&["--config", &config]).await;
    eventually("all are dead-lettered", || async {
        queues.dead().await == 5
    })
    .await;
    let stopped = tokio::time::timeout(Duration::from_secs(20), running.stop());
    let (code, counts) = stopped.await.unwrap();
    assert_eq!((code, &counts[0]["shadow"]["skipped"]), (0, &json!(5)));
    let records = read_records(&folder.path().join("decisions.jsonl"));
    assert_eq!(records.len(), 5);
    for record in records {
        assert_eq!(record["shadow"], json!({"skipped": "ended"}));
    }
}

#[tokio::test]
async fn a_shadow_is_swapped_while_messages_flow_and_an_invalid_one_is_rejected() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let candidate = write(folder.path(), "candidate.wat", &waits(5_000));
    let records = folder.path().join("decisions.jsonl");
    let worker = Worker::answering(|attempt| if attempt.receive_count == 1 { 503 } else { 200 });
    let worker = worker.await;
    let more = [
        "--shadow",
        &candidate,
        "--metrics",
        "127.0.0.1:0",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = serve(&queues, &worker, &[&LIVE[..], &more].concat()).await;
    let round = async |count: usize| {
        queues.send(numbered("m", 1)).await;
        eventually("it is recorded", || async {
            read_records(&records).len() == count
        })
        .await;
        read_records(&records)[count - 1]["shadow"]["delay"].clone()
    };
    assert_eq!(round(1).await, json!(5_000));
    let before = Scrape::of(&running.metrics()).await;
    std::fs::write(&candidate, "garbage").unwrap();
    eventually("the rejection is logged", || async {
        running
            .log()
            .contains("a new version of a shadow is rejected")
    })
    .await;
    assert_eq!(round(2).await, json!(5_000));
    std::fs::write(&candidate, waits(6_000)).unwrap();
    eventually("the swap is logged", || async {
        running
            .log()
            .contains("a new version of the shadow is active")
    })
    .await;
    assert_eq!(round(3).await, json!(6_000));
    let scrape = Scrape::of(&running.metrics()).await;
    assert_eq!(scrape.sum("backstop_policy_swaps_total", &[]), 1.0);
    assert_eq!(scrape.sum("backstop_policy_refusals_total", &[]), 1.0);
    // The first version is still exported, and no longer active.
    let shadows = |scrape: &Scrape| {
        let of = [("role", "shadow")];
        let named = scrape.labels("backstop_policy_info").len();
        (named, scrape.sum("backstop_policy_info", &of))
    };
    assert_eq!((shadows(&before), shadows(&scrape)), ((2, 1.0), (3, 1.0)));
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (&counts[0]["succeeded"], &counts[0]["shadow"]["differed"]),
        (&json!(3), &json!(3))
    );
}

#[tokio::test]
async fn the_doctor_warns_of_a_shadow_that_can_not_be_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "bad.wat", "garbage");
    let queue = |name: &str, shadow: &str| {
        format!(
            "[queues.{name}]\nurl = \"local:{name}\"\nhandler = {{ exec = [\"true\"] }}\nshadow = \"{shadow}\"\n"
        )
    };
    let config = queue("good", "linear") + &queue("bad", "bad.wat");
    let config = write(folder.path(), "backstop.toml", &config);
    let output = backstop(&["doctor", "--config", &config]).await;
    let report = text(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("the shadow linear"), "{report}");
    assert!(report.contains("the shadow can't be evaluated"), "{report}");
}

#[tokio::test]
async fn a_metrics_address_in_use_is_an_error_at_startup() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = [
        "run",
        "--queue-url",
        "local:q",
        "--exec",
        "true",
        "--metrics",
    ];
    for (address, code, expected) in [
        (address.as_str(), 3, "can't serve metrics at"),
        ("localhost", 3, "not an address with a port"),
    ] {
        let output = backstop(&[&arguments[..], &[address]].concat()).await;
        let log = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{log}");
        assert!(log.contains(expected), "{log}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shadow_of_the_retry_handler_is_counted_and_changes_no_delay() {
    let world = Plan {
        shadow: Some(vec![("base", "2h")]),
        outcome: Box::new(|it| {
            if it.attempt() < 3 {
                Err("Upstream")
            } else {
                Ok(())
            }
        }),
        ..Plan::default()
    }
    .build();
    let start = world.queue.now();
    world.fail("r-0", &json!({"order": 1}), "Upstream").await;
    world.run().await;
    let hours: Vec<_> = world
        .invocations()
        .iter()
        .map(|invocation| invocation.at.since(start).as_secs() / 3_600)
        .collect();
    assert_eq!(hours, [1, 3]);
    let shadow = world.shadow.as_ref().unwrap();
    shadow.settle(SETTLE_TIMEOUT);
    let tally = shadow.counts().tally();
    assert!(tally.differed > 0, "{tally:?}");
    assert_eq!(tally.differed, tally.differed_in_delay);
    assert_eq!((tally.agreed, tally.broken, tally.skipped), (0, 0, 0));
}
