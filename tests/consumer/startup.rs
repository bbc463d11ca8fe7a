//! The start of `backstop run`: what it serves, and its errors when it cannot start.

use std::collections::BTreeSet;
use std::time::Duration;

use ::backstop_telemetry::{Kind, METRICS};
use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::{Queues, text};
use backstop_tests::backstop::{self, Running, read_records};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::exposition::Scrape;
use backstop_tests::policies::{Rule, waits};
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::Worker;

mod compiling;
mod refused;
mod stopped;

/// The exit code and the error of a failed start.
async fn start_error(arguments: &[&str]) -> (i32, String) {
    let output = backstop::run(&[&["run"], arguments].concat()).await;
    (
        output.status.code().unwrap(),
        backstop::text(&output.stderr),
    )
}

#[tokio::test]
async fn the_error_of_a_failed_start_says_what_to_change() {
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
            vec!["the handler can't run", "./no-such-program"],
        ),
        (
            [&queue[..], &dead, &["--lambda", "no-such-function"]].concat(),
            5,
            vec!["the handler can't run", "ResourceNotFoundException"],
        ),
        (
            [&queue[..], &dead, &["--http", "127.0.0.1:8080"]].concat(),
            3,
            vec!["127.0.0.1:8080", "http://"],
        ),
        (
            [&queue[..], &dead, &http, &["--policy", "./none.wasm"]].concat(),
            4,
            vec![
                "can't read the policy ./none.wasm",
                "backstop policy build",
                "full-jitter",
            ],
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
            vec!["can't reach", "nothing listens at the endpoint"],
        ),
        (
            vec!["--config", "/no/such/backstop.toml"],
            3,
            vec![
                "can't read the configuration /no/such/backstop.toml",
                "there is no such file",
                "correct the path",
            ],
        ),
        (
            [
                &["--queue-url", "local:orders"],
                &["--envelope-key-file", "/no/such/keys"],
                &http[..],
            ]
            .concat(),
            5,
            vec![
                "envelope-key-file of the queue local:orders",
                "can't read /no/such/keys: there is no such file",
                "(umask 077; openssl rand -hex 32 > /no/such/keys)",
            ],
        ),
        (
            [
                &["--queue-url", "local:orders"],
                &["--scenarios", "/no/such/scenarios.toml"],
                &http[..],
            ]
            .concat(),
            3,
            vec![
                "can't read the scenarios /no/such/scenarios.toml",
                "scenarios.md",
            ],
        ),
        (
            [
                &["--queue-url", "local:orders"],
                &["--messages", "/no/such/messages"],
                &http[..],
            ]
            .concat(),
            3,
            vec!["--messages expects a file with one message in each line"],
        ),
        (
            vec!["--queue-url", "local:orders"],
            2,
            vec!["--http", "--exec", "--lambda"],
        ),
        (vec![], 2, vec!["--config", "--queue-url"]),
    ] {
        let (actual, error) = start_error(&arguments).await;
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in:\n{error}");
        }
        assert_eq!(actual, code, "{error}");
    }
}

#[tokio::test]
async fn no_queue_is_ready_where_another_one_prevents_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backstop.toml");
    let config = r#"
        [queues.first]
        url = "local:first"
        handler = { exec = "true" }
        policy = "linear"

        [queues.second]
        url = "local:second"
        handler = { exec = "true" }
        policy = "missing.wasm"
        "#;
    std::fs::write(&file, config).unwrap();
    let (code, error) = start_error(&["--config", file.to_str().unwrap()]).await;
    assert_eq!(code, 4, "{error}");
    assert!(
        error.contains("missing.wasm: there is no such file"),
        "{error}"
    );
    assert!(!error.contains(" ready "), "{error}");
}

#[tokio::test]
async fn one_configuration_serves_several_queues_with_single_and_composed_policies() {
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
    let worker = Worker::by_name().await;
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

#[tokio::test]
async fn a_local_queue_is_filled_from_lines_and_the_run_ends_when_it_is_empty() {
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

/// Of two delays of at most a millisecond, each is none or, rounded up, a second.
#[tokio::test]
async fn a_message_without_a_delay_does_not_wait_for_its_visibility_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "1\n2\n3\n4\n5\n").unwrap();
    let mut arguments = vec!["--queue-url", "local:try", "--exec", "false"];
    arguments.extend([
        "--set",
        "base=1ms",
        "--set",
        "cap=1ms",
        "--max-attempts",
        "3",
    ]);
    arguments.extend(["--messages", lines.to_str().unwrap()]);
    let running = Running::start(&arguments).await;
    let ended = tokio::time::timeout(Duration::from_secs(25), running.ended()).await;
    let (code, counts) = ended.expect("the visibility timeout is 30 s");
    assert_eq!((code, counts[0]["retried"].as_u64()), (0, Some(10)));
}

#[tokio::test]
async fn dead_letters_of_a_class_go_to_its_own_queue() {
    let endpoint = &ministack().endpoint;
    let queues = Queues::standard(endpoint, &[]).await;
    // Its queues take the dead letters of permanent failures and of the others.
    let (invalid, others) = (
        Queues::standard(endpoint, &[]).await,
        Queues::standard(endpoint, &[]).await,
    );
    queues.redrive_after(100).await;
    let worker = Worker::by_name().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backstop.toml");
    let config = |dead_letters: &str| {
        let text = format!(
            "endpoint-url = \"{endpoint}\"\n[queues.orders]\nurl = \"{}\"\nhandler = {{ http = \"{}\" }}\nsettings = {{ base = \"1ms\" }}\nmax-attempts = 2\ndead-letter-queue = {dead_letters}\n",
            queues.url, worker.url
        );
        std::fs::write(&file, text).unwrap();
    };
    let path = file.to_str().unwrap();
    for (dead_letters, bodies, expected) in [
        (
            format!(
                "{{ permanent = \"{}\", default = \"{}\" }}",
                invalid.url, others.url
            ),
            ["wrong-0", "broken-0"],
            (1, 1, 0),
        ),
        // Without a default, the queue of the redrive policy takes the others.
        (
            format!("{{ permanent = \"{}\" }}", invalid.url),
            ["wrong-1", "broken-1"],
            (2, 1, 1),
        ),
    ] {
        config(&dead_letters);
        queues.send(bodies.map(str::to_owned)).await;
        let running = Running::start(&["--config", path]).await;
        let log = running.log();
        assert!(log.contains(&format!("permanent={}", invalid.url)), "{log}");
        eventually("both are dead-lettered", || async {
            let counts = (
                invalid.held().await,
                others.held().await,
                queues.dead().await,
            );
            counts == expected && queues.held().await == 0
        })
        .await;
        running.stop().await;
    }
    let letters = invalid.take_left().await;
    assert_eq!(letters.keys().collect::<Vec<_>>(), ["wrong-0", "wrong-1"]);
    assert_eq!(
        text(&letters["wrong-0"], "BackstopClass"),
        Some("permanent")
    );

    // Every queue is checked, and all faults are reported at once.
    let fifo = Queues::fifo(endpoint, &[]).await;
    config(&format!(
        "{{ permanent = \"{endpoint}/000000000000/nowhere\", throttled = \"{}\", cart = \"{}\", default = \"{}\" }}",
        fifo.url, queues.url, others.url
    ));
    for command in ["run", "doctor"] {
        let output = backstop::run(&[command, "--config", path]).await;
        assert_ne!(output.status.code(), Some(0));
        let said = backstop::text(&[output.stdout, output.stderr].concat());
        for part in [
            "nowhere does not exist",
            "is its own dead-letter queue",
            "is a FIFO queue: name one of the same kind",
        ] {
            assert!(
                said.contains(part),
                "{command}: {part:?} is not in:\n{said}"
            );
        }
    }

    // Flags say the same.
    queues.send(["wrong-2".to_owned()]).await;
    let class = format!("permanent={}", invalid.url);
    let arguments = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        endpoint,
        "--http",
        &worker.url,
        "--dead-letter-queue",
        &others.url,
        "--dead-letter-queue",
        &class,
    ];
    let running = Running::start(&arguments).await;
    eventually("it is dead-lettered", || async {
        invalid.held().await == 1
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn dead_letters_go_to_the_queue_of_the_redrive_policy_and_a_low_receive_count_is_a_warning() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(5).await;
    queues.send(["wrong-0".to_owned()]).await;
    let worker = Worker::by_name().await;
    // No dead-letter queue is configured.
    let queue = [
        "--queue-url",
        &queues.url,
        "--endpoint-url",
        &queues.endpoint,
        "--http",
        &worker.url,
    ];
    let running = Running::start(&queue).await;
    let log = running.log();
    assert!(
        log.contains("dead-letter queue after 5 receives")
            && log.contains("Set max-attempts to at most 5"),
        "{log}"
    );
    eventually("it is dead-lettered", || async { queues.dead().await == 1 }).await;
    running.stop().await;
    let bounded = [&queue[..], &["--max-attempts", "5"]].concat();
    let running = Running::start(&bounded).await;
    assert!(!running.log().contains("receives"), "{}", running.log());
    running.stop().await;
}

#[tokio::test]
async fn a_missing_permission_is_named_and_one_on_the_dead_letter_queue_is_only_a_warning() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    let denying = async |request: u64| {
        let proxy = Proxy::start(&queues.endpoint, move |_, number| {
            if number == request {
                Fault::Denied
            } else {
                Fault::None
            }
        })
        .await;
        let behind = queues.behind(&proxy.endpoint);
        (behind.endpoint, behind.url, behind.dead_letters)
    };
    let (endpoint, url, dead_letters) = denying(0).await;
    let arguments = [
        "--queue-url",
        &url,
        "--endpoint-url",
        &endpoint,
        "--dead-letter-queue",
        &dead_letters,
        "--http",
        &worker.url,
    ];
    let (code, error) = start_error(&arguments).await;
    assert_eq!(code, 5);
    for part in [
        "access to the queue",
        &url,
        "is denied",
        "sqs:GetQueueAttributes",
        "credentials",
    ] {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
    let (endpoint, url, dead_letters) = denying(1).await;
    let arguments = [
        "--queue-url",
        &url,
        "--endpoint-url",
        &endpoint,
        "--dead-letter-queue",
        &dead_letters,
        "--http",
        &worker.url,
    ];
    let running = Running::start(&arguments).await;
    assert!(
        running
            .log()
            .contains("can't read the attributes of the dead-letter queue"),
        "{}",
        running.log()
    );
    running.stop().await;
}

#[tokio::test]
async fn every_counter_exists_at_0_before_the_first_message() {
    let running = Running::start(&[
        "--queue-url",
        "local:try",
        "--exec",
        "true",
        "--shadow",
        "linear",
        "--metrics",
        "127.0.0.1:0",
    ])
    .await;
    // Metrics are served as soon as every queue is ready.
    eventually("metrics are served", || async {
        reqwest::get(running.metrics()).await.is_ok()
    })
    .await;
    let scrape = Scrape::of(&running.metrics()).await;
    // It counts for queues with `idempotency`, which this one is not.
    let is_expected = |name: &str| name != "backstop_idempotency_total";
    let counters = METRICS.iter().filter(|it| it.kind == Kind::Counter);
    for metric in counters.filter(|it| is_expected(it.name)) {
        let series = scrape.labels(metric.name);
        assert!(!series.is_empty(), "{} is missing", metric.name);
        for labels in series {
            let names: BTreeSet<_> = labels.keys().map(String::as_str).collect();
            assert_eq!(
                names,
                metric.labels.iter().copied().collect(),
                "{}",
                metric.name
            );
        }
        // The first poll may have started.
        if metric.name != "backstop_sqs_requests_total" {
            assert_eq!(scrape.sum(metric.name, &[]), 0.0, "{}", metric.name);
        }
    }
    let fallback = [("queue", "try"), ("by", "fallback")];
    let of_fallback = scrape
        .labels("backstop_decisions_total")
        .into_iter()
        .filter(|labels| fallback.iter().all(|(name, value)| labels[*name] == *value));
    assert_eq!(of_fallback.count(), 4, "one of each class");
    for policy in ["full-jitter", "linear"] {
        for name in ["swaps", "refusals", "rollbacks"] {
            let name = format!("backstop_policy_{name}_total");
            let mut of_policy = scrape.labels(&name).into_iter();
            assert!(
                of_policy.any(|labels| labels["policy"] == policy),
                "{name} of {policy}"
            );
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn a_cut_connection_does_not_fail_the_start() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    // The start describes the queue and its dead-letter queue. The first response to each is cut off.
    let proxy = Proxy::start(&queues.endpoint, |_, number| match number {
        0 | 2 => Fault::Cut,
        _ => Fault::None,
    })
    .await;
    let behind = queues.behind(&proxy.endpoint);
    let arguments = [
        "--queue-url",
        &behind.url,
        "--endpoint-url",
        &behind.endpoint,
        "--dead-letter-queue",
        &behind.dead_letters,
        "--http",
        &worker.url,
    ];
    let running = Running::start(&arguments).await;
    assert_eq!(running.stop().await.0, 0);
}

#[tokio::test]
async fn a_dead_letter_queue_that_accepts_only_smaller_messages_is_a_warning_and_blocks_no_other_message()
 {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues
        .client
        .set_queue_attributes()
        .queue_url(&queues.dead_letters)
        .attributes(Q::MaximumMessageSize, "1024")
        .send()
        .await
        .unwrap();
    let worker = Worker::answering(|_| 400).await;
    let large = format!("large-{}", "x".repeat(2_000));
    queues.send([large.clone(), "small".to_owned()]).await;
    let running = backstop::serve(&queues, &worker, &[]).await;
    let log = running.log();
    assert!(log.contains("Raise its MaximumMessageSize to"), "{log}");
    eventually(
        "the small one is dead-lettered, the large one rejected",
        || async {
            queues.dead().await == 1 && running.log().contains("does not accept a message")
        },
    )
    .await;
    let (_, counts) = running.stop().await;
    let count = |name: &str| counts[0][name].as_u64().unwrap();
    assert_eq!((count("dead-lettered"), count("retried")), (1, 0));
    assert_eq!(
        (worker.attempts_of(&large), worker.attempts_of("small")),
        (1, 1)
    );
    // Returned to the queue at the end.
    assert_eq!(queues.take_left().await.len(), 1);
}
