//! The consumer as its users run it: `backstop run` as a child process against emulators of SQS, messages counted. What was sent is done, dead-lettered or still there, whatever happens.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::{Queues, text};
use backstop_tests::backstop::{self, Running};
use backstop_tests::emulator::{ministack, moto};
use backstop_tests::eventually;
use backstop_tests::policies::{Rule, waits};
use backstop_tests::worker::{Worker, status};
use rustix::process::Signal;
use serde_json::Value;

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number}"))
        .collect()
}

/// A worker for messages named after what becomes of them: `fine`, `flaky` (fails twice), `wrong` (400), `broken` (always 503).
async fn worker() -> Worker {
    Worker::answering(|attempt| match attempt.body.split('-').next().unwrap() {
        "flaky" if attempt.receive_count <= 2 => 503,
        "wrong" => 400,
        "broken" => 503,
        _ => 200,
    })
    .await
}

async fn start(queues: &Queues, worker: &Worker, more: &[&str]) -> Running {
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--http",
        &worker.url,
    ];
    Running::start(&[&arguments, more].concat()).await
}

/// The whole job, counted.
async fn every_message_is_accounted_for(queues: Queues, scale: usize) {
    let worker = worker().await;
    let kinds = [
        ("fine", 10 * scale),
        ("flaky", 5 * scale),
        ("wrong", 3 * scale),
        ("broken", 2 * scale),
    ];
    for (kind, count) in kinds {
        queues.send(numbered(kind, count)).await;
    }
    let dead = ["--dead-letter-queue", &queues.dead_letters];
    let policy = [
        "--policy",
        "linear",
        "--set",
        "base=1ms",
        "--set",
        "max-attempts=4",
    ];
    let running = start(&queues, &worker, &[&dead[..], &policy].concat()).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (code, counts) = running.stop().await;
    assert_eq!(code, 0);

    let (done, dead) = (15 * scale, 5 * scale);
    let counts = &counts[0];
    assert_eq!(
        (
            counts["succeeded"].as_u64(),
            counts["dead-lettered"].as_u64()
        ),
        (Some(done as u64), Some(dead as u64))
    );
    assert_eq!(
        (counts["unsettled"].as_u64(), counts["fallbacks"].as_u64()),
        (Some(0), Some(0))
    );
    let letters = queues.take_dead().await;
    assert_eq!(letters.len(), dead);
    for (body, letter) in &letters {
        let expected = match body.split('-').next().unwrap() {
            "wrong" => ("1", "permanent", "permanent: HTTP 400"),
            "broken" => ("4", "transient", "max-attempts of 4 reached: HTTP 503"),
            other => panic!("{other} was dead-lettered"),
        };
        let of = |name: &str| text(letter, name).unwrap_or_default();
        assert_eq!(
            (
                of("BackstopAttempt"),
                of("BackstopClass"),
                of("BackstopReason")
            ),
            expected
        );
        assert!(of("BackstopPolicy").starts_with("sha256:") && of("BackstopMessageId").len() > 8);
    }
    for (body, attempts) in [
        ("fine-0", 1),
        ("flaky-0", 3),
        ("wrong-0", 1),
        ("broken-0", 4),
    ] {
        assert_eq!(worker.attempts_of(body), attempts, "{body}");
    }
}

#[tokio::test]
async fn every_message_is_accounted_for_on_ministack() {
    every_message_is_accounted_for(Queues::standard(&ministack().endpoint, &[]).await, 10).await;
}

#[tokio::test]
async fn every_message_is_accounted_for_on_moto() {
    every_message_is_accounted_for(Queues::standard(&moto().endpoint, &[]).await, 1).await;
}

#[tokio::test]
async fn dead_letters_go_where_the_redrive_policy_says_and_a_low_receive_count_is_told() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(5).await;
    queues.send(["wrong-0".to_owned()]).await;
    let worker = worker().await;
    let running = start(&queues, &worker, &[]).await;
    let log = running.log();
    assert!(
        log.contains("away after 5 receives") && log.contains("Set max-attempts to at most 5"),
        "{log}"
    );
    eventually("the dead letter is there", || async {
        queues.dead().await == 1
    })
    .await;
    running.stop().await;
    let running = start(&queues, &worker, &["--max-attempts", "5"]).await;
    assert!(!running.log().contains("receives"), "{}", running.log());
    running.stop().await;
}

#[tokio::test]
async fn a_fifo_group_stays_in_order_through_failures() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|attempt| {
        if attempt.body.ends_with('2') && attempt.receive_count == 1 {
            503
        } else {
            200
        }
    })
    .await;
    for group in ["a", "b", "c"] {
        queues
            .send_grouped((0..6).map(|number| (Some(group.to_owned()), format!("{group}{number}"))))
            .await;
    }
    let policy = [
        "--dead-letter-queue",
        &queues.dead_letters,
        "--policy",
        "linear",
        "--set",
        "base=1ms",
    ];
    let running = start(&queues, &worker, &policy).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    for group in ["a", "b", "c"] {
        let order: Vec<_> = worker
            .attempts()
            .into_iter()
            .map(|attempt| attempt.body)
            .filter(|body| body.starts_with(group))
            .collect();
        let expected = ["0", "1", "2", "2", "3", "4", "5"].map(|number| format!("{group}{number}"));
        assert_eq!(order, expected);
    }
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(18), 0)
    );
}

#[tokio::test]
async fn a_crash_in_the_middle_of_work_loses_nothing() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "2")]).await;
    let worker = worker().await;
    let sent: BTreeSet<_> = [
        numbered("fine", 150),
        numbered("flaky", 50),
        numbered("wrong", 50),
    ]
    .concat()
    .into_iter()
    .collect();
    queues.send(sent.iter().cloned()).await;
    let policy = [
        "--dead-letter-queue",
        &queues.dead_letters,
        "--policy",
        "linear",
        "--set",
        "base=1ms",
    ];
    for enough in [20, 80, 160] {
        let running = start(&queues, &worker, &policy).await;
        eventually("some work was done", || async {
            worker.attempts().len() >= enough
        })
        .await;
        running.kill().await;
    }
    let running = start(&queues, &worker, &policy).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    assert_eq!(running.stop().await.0, 0);
    let dead: BTreeSet<_> = queues.take_dead().await.into_keys().collect();
    let attempted: BTreeSet<_> = worker
        .attempts()
        .into_iter()
        .map(|attempt| attempt.body)
        .collect();
    assert_eq!(attempted, sent);
    assert_eq!(dead, numbered("wrong", 50).into_iter().collect());
}

#[tokio::test]
async fn sigterm_finishes_what_is_in_hand_and_hands_the_rest_back() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    // One group: the first message is being worked on for a second while the others wait behind it.
    queues
        .send_grouped((0..5).map(|number| (Some("g".to_owned()), format!("slow-{number}"))))
        .await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "sh -c 'cat >> {log}; echo >> {log}; sleep 1'",
        log = log.display()
    );
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--exec",
        &script,
    ];
    let running = Running::start(&arguments).await;
    eventually("the first is in hand", || async { log.exists() }).await;
    let (code, counts) = running.stop().await;
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(&log).unwrap().trim(), "slow-0");
    assert_eq!(
        (
            counts[0]["succeeded"].as_u64(),
            counts[0]["handed-back"].as_u64()
        ),
        (Some(1), Some(4))
    );
    // Visible at once: nobody waits for the visibility timeout of 30 s.
    assert_eq!(queues.take_left().await.len(), 4);
}

#[tokio::test]
async fn work_that_outlasts_the_grace_time_is_cut_short_and_handed_back() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["endless".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sh -c 'touch {}; sleep 1000'", started.display());
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--exec",
        &script,
        "--grace",
        "100ms",
    ];
    let running = Running::start(&arguments).await;
    eventually("the work has begun", || async { started.exists() }).await;
    let (code, counts) = running.stop().await;
    assert_eq!((code, counts[0]["handed-back"].as_u64()), (0, Some(1)));
    assert_eq!(queues.take_left().await.len(), 1);
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["endless".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let script = format!("sh -c 'touch {}; sleep 1000'", started.display());
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--exec",
        &script,
        "--grace",
        "1h",
    ];
    let running = Running::start(&arguments).await;
    eventually("the work has begun", || async { started.exists() }).await;
    running.signal(Signal::INT);
    eventually("the first signal is heard", || async {
        running.log().contains("stopping")
    })
    .await;
    running.signal(Signal::INT);
    assert_eq!(running.ended().await.0, 130);
}

#[tokio::test]
async fn a_heartbeat_keeps_a_long_attempt_from_being_delivered_again() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "2")]).await;
    queues.send(["long".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "sh -c 'echo begun >> {log}; sleep 5; echo ended >> {log}'",
        log = log.display()
    );
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--exec",
        &script,
    ];
    let running = Running::start(&arguments).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "begun\nended\n");
    assert_eq!(
        (
            counts[0]["received"].as_u64(),
            counts[0]["succeeded"].as_u64()
        ),
        (Some(1), Some(1))
    );
    assert!(
        counts[0]["visibility-requests"].as_u64() >= Some(3),
        "{}",
        counts[0]
    );
}

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
    let worker = worker().await;
    let file = policy.to_str().unwrap().to_owned();
    let running = start(
        &queues,
        &worker,
        &[
            "--dead-letter-queue",
            &queues.dead_letters,
            "--policy",
            &file,
        ],
    )
    .await;
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
        log().contains("a new version of the policy decides")
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
    for (bad, said) in [
        (&good[..good.len() / 2], "not WebAssembly"),
        ("", "empty"),
        (endless.as_str(), "ran out of fuel"),
        (refusing.as_str(), "refuses its settings: because"),
    ] {
        std::fs::write(&policy, bad).unwrap();
        eventually(said, || async { log().contains(said) }).await;
        assert_eq!(
            reason_of("3").await,
            "another",
            "after a version that is {said}"
        );
    }
    std::fs::remove_file(&policy).unwrap();
    eventually("the deletion is told", || async {
        log().contains("can't read the policy")
    })
    .await;
    assert_eq!(reason_of("4").await, "another");

    // Written beside it and renamed, as editors and deployments do.
    let beside = folder.path().join("policy.new");
    std::fs::write(&beside, good).unwrap();
    std::fs::rename(&beside, &policy).unwrap();
    eventually("the last version is in place", || async {
        log().matches("a new version of the policy decides").count() == 2
    })
    .await;
    assert_eq!(reason_of("5").await, "renamed");
    assert_eq!(running.stop().await.0, 0);
}

#[tokio::test]
async fn a_policy_that_breaks_at_work_is_stood_in_for_by_the_fallback() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let (policy, records) = (
        folder.path().join("policy.wat"),
        folder.path().join("decisions.jsonl"),
    );
    // Stands the probe, whose ids are five bytes long, and never ends for an id of SQS's.
    let trap = "(if (i32.gt_u (i32.load offset=4 (local.get 0)) (i32.const 20)) (then (loop $l (br $l)))) (i32.const 128)";
    std::fs::write(
        &policy,
        Rule {
            judge: Some(trap),
            ..Rule::default()
        }
        .text(),
    )
    .unwrap();
    let worker =
        Worker::answering(|attempt| if attempt.receive_count == 1 { 400 } else { 200 }).await;
    queues.send(numbered("m", 5)).await;
    let more = [
        "--dead-letter-queue",
        &queues.dead_letters,
        "--policy",
        policy.to_str().unwrap(),
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = start(&queues, &worker, &more).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    // Not even what is permanent is dead-lettered on a broken policy's account.
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

fn read_records(path: &std::path::Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_record_of_every_decision_tells_all_that_went_into_it() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    let worker = Worker::start(|attempt| match attempt.receive_count {
        1 => axum::http::Response::builder()
            .status(429)
            .header("retry-after", "1")
            .header("x-request-id", "r-1")
            .body(
                r#"{"errorType": "SlowDown", "errorMessage": "one at a time", "requestId": "f-1"}"#
                    .into(),
            )
            .unwrap(),
        _ => status(200),
    })
    .await;
    queues.send(["order".to_owned()]).await;
    let more = [
        "--dead-letter-queue",
        &queues.dead_letters,
        "--policy",
        "equal-jitter",
        "--set",
        "base=100ms",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = start(&queues, &worker, &more).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.stop().await;
    let [record] = &read_records(&records)[..] else {
        panic!("one record")
    };
    let parsed: ::backstop::record::DecisionRecord =
        serde_json::from_value(record.clone()).unwrap();
    assert_eq!(
        (
            parsed.policy[0].name.as_str(),
            parsed.policy[0].settings.len()
        ),
        ("equal-jitter", 1)
    );
    let failure = &parsed.failure;
    assert_eq!(
        (
            failure.attempt.get(),
            failure.error.code.as_str(),
            failure.error.status
        ),
        (1, "SlowDown", Some(429))
    );
    assert_eq!(failure.error.retry_after.map(|wait| wait.0), Some(1_000));
    let details: BTreeMap<_, _> = failure.error.details.iter().cloned().collect();
    assert_eq!(
        (
            details["requestId"].as_str(),
            details["x-request-id"].as_str()
        ),
        ("f-1", "r-1")
    );
    assert!(failure.source.starts_with("arn:aws:sqs:"));
    assert_eq!(
        (&record["verdict"], &record["delay"], &record["by"]),
        (&"retry".into(), &1_000.into(), &"policy".into())
    );
    assert!(
        !record.to_string().contains("\"order\""),
        "a body is never recorded"
    );

    // Decided again from the record alone: the same.
    let sandbox = ::backstop::policy::Sandbox::new(Default::default()).unwrap();
    let policy =
        ::backstop::policy::Policy::load(&sandbox, "equal-jitter", &[("base", "100ms")]).unwrap();
    assert_eq!(policy.parts().next().unwrap(), parsed.policy[0]);
    let again = policy.ask(failure, &Default::default()).answer.unwrap();
    assert_eq!(
        (again.class, again.action),
        (parsed.decision.class, parsed.decision.action)
    );
}

#[tokio::test]
async fn the_worker_is_sent_the_headers_of_the_worker_daemon() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = worker().await;
    let tenant = aws_sdk_sqs::types::MessageAttributeValue::builder()
        .data_type("String")
        .string_value("t-1")
        .build()
        .unwrap();
    queues
        .client
        .send_message()
        .queue_url(&queues.url)
        .message_body("fine")
        .message_attributes("tenant", tenant)
        .send()
        .await
        .unwrap();
    let running = start(
        &queues,
        &worker,
        &["--dead-letter-queue", &queues.dead_letters],
    )
    .await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.stop().await;
    let headers = &worker.attempts()[0].headers;
    let of = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        (
            of("x-aws-sqsd-receive-count"),
            of("x-aws-sqsd-attr-tenant"),
            of("content-type")
        ),
        ("1".into(), "t-1".into(), "application/json".into())
    );
    assert!(queues.url.ends_with(&of("x-aws-sqsd-queue")) && of("x-aws-sqsd-msgid").len() > 8);
    assert!(
        of("x-aws-sqsd-first-received-at").ends_with('Z')
            && of("user-agent").starts_with("backstop/")
    );
}

#[tokio::test]
async fn a_command_fails_by_its_exit_code_its_errors_and_its_last_line() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    queues
        .send(["exit", "shaped", "data", "signal"].map(str::to_owned))
        .await;
    let script = r#"sh -c 'case $(cat) in
        exit) echo out; echo "first line" >&2; echo "attempt $BACKSTOP_ATTEMPT" >&2; exit 3;;
        shaped) echo "{\"errorType\": \"OutOfStock\", \"errorMessage\": \"none left\"}"; exit 1;;
        data) exit 65;;
        signal) kill -9 $$;;
    esac'"#;
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--exec",
        script,
        "--max-attempts",
        "1",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = Running::start(&arguments).await;
    eventually("all are dead-lettered", || async {
        queues.dead().await == 4
    })
    .await;
    running.stop().await;
    let errors: BTreeSet<_> = read_records(&records)
        .iter()
        .map(|record| {
            let error = &record["failure"]["error"];
            let of = |field: &str| error[field].as_str().unwrap().to_owned();
            (
                of("code"),
                of("message"),
                record["class"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let expected = [
        ("exit 3", "first line\nattempt 1", "transient"),
        ("OutOfStock", "none left", "transient"),
        ("exit 65", "", "permanent"),
        ("signal 9", "", "transient"),
    ];
    assert_eq!(
        errors,
        expected
            .map(|(code, message, class)| (code.to_owned(), message.to_owned(), class.to_owned()))
            .into()
    );
}

#[tokio::test]
async fn one_configuration_serves_several_queues_with_policies_whole_and_in_parts() {
    let (one, other) = (
        Queues::standard(&ministack().endpoint, &[]).await,
        Queues::standard(&ministack().endpoint, &[]).await,
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("classes.wat"),
        Rule {
            classify: Some("(i32.const 144)"),
            ..Rule::default()
        }
        .text(),
    )
    .unwrap();
    std::fs::write(folder.path().join("waits.wat"), waits(1)).unwrap();
    let worker = worker().await;
    let config = format!(
        r#"
        endpoint-url = "{endpoint}"
        decisions = {{ record = "decisions.jsonl" }}

        [queues.whole]
        url = "{}"
        dead-letter-queue = "{}"
        handler = {{ http = "{url}" }}
        policy = "linear"
        settings = {{ base = "1ms", max-attempts = 2 }}

        [queues.parts]
        url = "{}"
        dead-letter-queue = "{}"
        handler = {{ http = "{url}" }}
        policy = {{ classifier = "classes.wat", backoff = "waits.wat", dead-lettering = {{ use = "linear", settings = {{ max-attempts = 3 }} }} }}
        "#,
        one.url,
        one.dead_letters,
        other.url,
        other.dead_letters,
        endpoint = one.endpoint,
        url = worker.url,
    );
    let file = folder.path().join("backstop.toml");
    std::fs::write(&file, config).unwrap();
    one.send(["broken-one".to_owned()]).await;
    other.send(["broken-other".to_owned()]).await;
    let running = Running::start(&["--config", file.to_str().unwrap()]).await;
    eventually("both are dead-lettered", || async {
        one.dead().await + other.dead().await == 2
    })
    .await;
    let (code, counts) = running.stop().await;
    assert_eq!((code, counts.len()), (0, 2));
    let letter = other.take_dead().await.remove("broken-other").unwrap();
    assert_eq!(
        (
            text(&letter, "BackstopClass"),
            text(&letter, "BackstopAttempt")
        ),
        (Some("cart"), Some("3"))
    );
    assert_eq!(
        text(&letter, "BackstopPolicy").unwrap().split(',').count(),
        3
    );
    let letter = one.take_dead().await.remove("broken-one").unwrap();
    assert_eq!(
        (
            text(&letter, "BackstopClass"),
            text(&letter, "BackstopAttempt")
        ),
        (Some("transient"), Some("2"))
    );
    assert_eq!(
        read_records(&folder.path().join("decisions.jsonl")).len(),
        5
    );
}

/// What is said of a start that fails, and the exit code.
async fn refusal(arguments: &[&str]) -> (i32, String) {
    let output = backstop::run(&[&["run"], arguments].concat()).await;
    (
        output.status.code().unwrap(),
        backstop::text(&output.stderr),
    )
}

#[tokio::test]
async fn a_start_that_can_not_work_says_what_to_change() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let fifo = Queues::fifo(&ministack().endpoint, &[]).await;
    let nowhere = format!("{}/000000000000/nowhere", queues.endpoint);
    let queue = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
    ];
    let http = ["--http", "http://127.0.0.1:1/"];
    let dead = ["--dead-letter-queue", &queues.dead_letters];
    let unreachable = format!("http://127.0.0.1:{}", backstop_tests::emulator::free_port());
    for (arguments, code, parts) in [
        (
            [&queue[..], &http].concat(),
            5,
            vec!["has no dead-letter queue", "--dead-letter-queue"],
        ),
        (
            [
                &["--queue-url", &nowhere, "--endpoint-url", &queues.endpoint],
                &http[..],
            ]
            .concat(),
            5,
            vec![&nowhere, "does not exist", "create it"],
        ),
        (
            [&queue[..], &http, &["--dead-letter-queue", &nowhere]].concat(),
            5,
            vec!["dead-letter queue", &nowhere, "does not exist"],
        ),
        (
            [
                &queue[..],
                &http,
                &["--dead-letter-queue", &fifo.dead_letters],
            ]
            .concat(),
            5,
            vec!["is a standard queue", "is a FIFO queue", "same kind"],
        ),
        (
            [&queue[..], &http, &["--dead-letter-queue", &queues.url]].concat(),
            5,
            vec!["its own dead-letter queue"],
        ),
        (
            [&queue[..], &dead, &["--exec", "./no-such-program"]].concat(),
            5,
            vec!["the handler can't work", "./no-such-program"],
        ),
        (
            [&queue[..], &dead, &["--lambda", "no-such-function"]].concat(),
            5,
            vec!["the handler can't work", "ResourceNotFoundException"],
        ),
        (
            [&queue[..], &dead, &["--http", "127.0.0.1:8080"]].concat(),
            3,
            vec!["127.0.0.1:8080", "http://"],
        ),
        (
            [&queue[..], &dead, &http, &["--policy", "./none.wasm"]].concat(),
            4,
            vec!["can't read the policy ./none.wasm"],
        ),
        (
            [&queue[..], &dead, &http, &["--policy", "ful-jitter"]].concat(),
            2,
            vec!["no built-in policy `ful-jitter`", "full-jitter"],
        ),
        (
            [&queue[..], &dead, &http, &["--set", "bass=2s"]].concat(),
            4,
            vec!["unknown setting `bass`", "base, cap, floor"],
        ),
        (
            [&["--queue-url", "orders"], &http[..]].concat(),
            3,
            vec!["--queue-url", "`orders` is not the URL of a queue"],
        ),
        (
            [
                &[
                    "--queue-url",
                    &format!("{unreachable}/0/orders"),
                    "--endpoint-url",
                    &unreachable,
                ],
                &http[..],
            ]
            .concat(),
            5,
            vec!["can't reach", "check the network"],
        ),
        (
            vec!["--config", "/no/such/backstop.toml"],
            3,
            vec!["can't read the configuration /no/such/backstop.toml"],
        ),
        (
            vec!["--queue-url", "local:orders"],
            2,
            vec!["--http", "--exec", "--lambda"],
        ),
        (vec![], 2, vec!["--config", "--queue-url"]),
    ] {
        let (got, said) = refusal(&arguments).await;
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in:\n{said}");
        }
        assert_eq!(got, code, "{said}");
    }
}

#[tokio::test]
async fn a_queue_in_memory_is_filled_from_lines_and_the_run_ends_when_it_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, log) = (folder.path().join("lines"), folder.path().join("log"));
    std::fs::write(&lines, "one\ntwo\n\nthree\n").unwrap();
    let script = format!("sh -c 'echo $(cat) >> {}'", log.display());
    let arguments = [
        "--queue-url",
        "local:try",
        "--exec",
        &script,
        "--messages",
        lines.to_str().unwrap(),
    ];
    let (code, counts) = Running::start(&arguments).await.ended().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(3)));
    let done: BTreeSet<_> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(done, ["one", "two", "three"].map(str::to_owned).into());
}

#[tokio::test]
async fn a_function_is_invoked_for_each_message_and_its_error_is_put_before_the_policy() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    backstop_tests::lambda::make_function(&queues.endpoint, "orders").await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    queues
        .send([r#"{"fail": false}"#, r#"{"fail": true}"#].map(str::to_owned))
        .await;
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--lambda",
        "orders",
        "--max-attempts",
        "1",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = Running::start(&arguments).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (
            counts[0]["succeeded"].as_u64(),
            counts[0]["dead-lettered"].as_u64()
        ),
        (Some(1), Some(1))
    );
    let error = &read_records(&records)[0]["failure"]["error"];
    assert_eq!(
        (error["code"].as_str(), error["message"].as_str()),
        (Some("OutOfStock"), Some("none left"))
    );
    assert_eq!(
        queues.take_dead().await.into_keys().collect::<Vec<_>>(),
        [r#"{"fail": true}"#]
    );
}
