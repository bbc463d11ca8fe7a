//! What the handlers do with a message, and how their failures reach the policy and the records.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, read_records, serve};
use backstop_tests::documents::document;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function};
use backstop_tests::worker::{Worker, status};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The trace context of a message.
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn the_worker_receives_the_headers_of_the_worker_daemon() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
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
    let running = serve(&queues, &worker, &[]).await;
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

/// Servers close idle connections, and a request that meets a close is a failed attempt: so none is sent on a connection that was idle for long.
#[tokio::test]
async fn a_worker_gets_a_later_message_on_a_new_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let worker = tokio::spawn(async move {
        let mut answers = vec![
            &b"HTTP/1.1 204 Done\r\n\r\n"[..],
            b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n",
        ];
        // Each connection has one answer, and stays open.
        let mut open = Vec::new();
        while !answers.is_empty() {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4_096];
            // A start connects and sends nothing.
            if stream.read(&mut request).await.unwrap() > 0 {
                stream.write_all(answers.pop().unwrap()).await.unwrap();
                open.push(stream);
            }
        }
        open
    });
    let folder = tempfile::tempdir().unwrap();
    let messages = folder.path().join("messages");
    std::fs::write(&messages, "one\n").unwrap();
    let messages = messages.to_str().unwrap();
    let run = ["run", "--queue-url", "local:q", "--http", &url];
    let run = command(&[&run[..], &["--messages", messages]].concat()).output();
    let output = run.await.unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("received=2 succeeded=1 retried=1"), "{log}");
    assert_eq!(worker.await.unwrap().len(), 2);
}

/// A wrong path makes dead letters of all messages, so the log says it: once, and not of a worker that is there.
#[tokio::test]
async fn a_path_that_the_worker_does_not_know_is_named_once() {
    const DOUBT: &str = "is the path right? The policy decides about its messages";
    let described = r#"{"errorType": "UnknownOrder", "errorMessage": "no such order"}"#;
    let worker = Worker::start(move |attempt| match attempt.body.as_str() {
        "described" => {
            let mut answer = status(404);
            *answer.body_mut() = Body::from(described);
            answer
        }
        "unknown" => status(404),
        "put" => status(405),
        _ => status(200),
    })
    .await;
    let url = worker.url.replace("http://", "http://user:secret@");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("messages");
    for (messages, doubted) in [
        ("unknown\nunknown\nput\n", Some("404")),
        ("put\n", Some("405")),
        ("described\n", None),
        ("fine\nunknown\n", None),
    ] {
        std::fs::write(&file, messages).unwrap();
        let run = ["run", "--queue-url", "local:orders", "--http", &url];
        let more = ["--max-in-flight", "1", "--messages", file.to_str().unwrap()];
        let output = command(&[&run[..], &more].concat()).output().await.unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            log.matches(DOUBT).count(),
            usize::from(doubted.is_some()),
            "{log}"
        );
        if let Some(status) = doubted {
            let line = format!("the worker answers {status} at {}: {DOUBT}", worker.url);
            assert!(log.contains(&line), "{log}");
            assert!(!log.contains("secret"), "{log}");
        }
        assert!(
            messages == "fine\nunknown\n" || log.contains("succeeded=0"),
            "{log}"
        );
    }
}

/// Everything that a message can have is in this one: what a worker gets is what the table of handlers.md names.
#[tokio::test]
async fn a_worker_gets_the_headers_and_variables_that_the_document_names_and_no_others() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    let send = async || {
        use aws_sdk_sqs::types::{
            MessageSystemAttributeNameForSends, MessageSystemAttributeValue as System,
        };
        let text = |text: &str| {
            let value = aws_sdk_sqs::types::MessageAttributeValue::builder();
            value
                .data_type("String")
                .string_value(text)
                .build()
                .unwrap()
        };
        let trace = System::builder()
            .data_type("String")
            .string_value("Root=1-5759e988-bd862e3fe1be46a994272793");
        let message = queues.client.send_message().queue_url(&queues.url);
        let message = message
            .message_body("fine")
            .message_group_id("customer-1")
            .message_deduplication_id(uuid::Uuid::new_v4().to_string())
            .message_attributes("tenant", text("t-1"))
            .message_attributes("traceparent", text(TRACEPARENT))
            .message_attributes("tracestate", text("v=1"))
            .message_attributes("Forged", text("x\r\nX-Aws-Sqsd-Message-Group-Id: other"))
            .message_attributes("large", text(&"x".repeat(80_000)))
            .message_system_attributes(
                MessageSystemAttributeNameForSends::AwsTraceHeader,
                trace.build().unwrap(),
            );
        message.send().await.unwrap();
    };
    let document = document("host/docs/workers/handlers.md");
    let columns = |column: usize| -> BTreeSet<String> {
        let start = document.find("| | header of `http` |").unwrap();
        let rows = document[start..]
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let cells = rows.map(|row| row.split('|').nth(column).unwrap());
        let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        names
            .filter(|name| !name.contains(['{', '/']))
            .map(|name| name.replace("NAME", "tenant"))
            .collect()
    };

    send().await;
    let worker = Worker::by_name().await;
    let more = ["--http-content-type", "text/plain; charset=utf-8"];
    let running = serve(&queues, &worker, &more).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.stop().await;
    let headers = &worker.attempts()[0].headers;
    // One attribute stands for all.
    let is_other = |name: &String| !name.starts_with("x-aws-sqsd-attr-trace");
    let sent = headers.keys().map(ToString::to_string).filter(is_other);
    let sent: BTreeSet<_> = sent.collect();
    let documented = columns(2).iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(sent, documented);
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["x-aws-sqsd-message-group-id"], "customer-1");
    assert_eq!(
        headers["x-backstop-omitted"],
        "x-aws-sqsd-attr-forged, x-aws-sqsd-attr-large"
    );

    send().await;
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let script = format!("sh -c 'env > {}'", seen.display());
    let mut command = command(
        &[
            &["run", "--json"][..],
            &queues.arguments(),
            &["--exec", &script, "--cache", "off"],
        ]
        .concat(),
    );
    // What the host inherited is no message's.
    command.env("BACKSTOP_MESSAGE_GROUP", "stale");
    command.env("TRACEPARENT", "stale");
    command.env_remove("BACKSTOP_CACHE");
    let running = Running::start_command(command).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.stop().await;
    let seen = std::fs::read_to_string(seen).unwrap();
    let variables: BTreeMap<_, _> = seen
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| {
            ["BACKSTOP_", "TRACE", "_X_"]
                .iter()
                .any(|it| name.starts_with(it))
        })
        .collect();
    let names: BTreeSet<_> = variables.keys().map(ToString::to_string).collect();
    assert_eq!(names, columns(3));
    assert_eq!(variables["BACKSTOP_MESSAGE_GROUP"], "customer-1");
    assert_eq!(variables["BACKSTOP_OMITTED"], r#"["large"]"#);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(variables["BACKSTOP_ATTRIBUTES"]).unwrap(),
        serde_json::json!({
            "tenant": "t-1",
            "traceparent": TRACEPARENT,
            "tracestate": "v=1",
            "Forged": "x\r\nX-Aws-Sqsd-Message-Group-Id: other",
        })
    );
    assert_eq!(variables["TRACEPARENT"], TRACEPARENT);
}

/// A proxy that responds with 200 in place of the worker would cause an unhandled message to be deleted.
#[tokio::test]
async fn a_proxy_is_used_only_if_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let messages = folder.path().join("messages");
    std::fs::write(&messages, "fine\n").unwrap();
    let (worker, proxy) = (Worker::by_name().await, Worker::by_name().await);
    let proxied = ["--http-proxy", proxy.url.as_str()];
    for (more, expected) in [(&[][..], (1, 0)), (&proxied, (1, 1))] {
        let arguments = [
            "run",
            "--queue-url",
            "local:try",
            "--http",
            &worker.url,
            "--messages",
            messages.to_str().unwrap(),
        ];
        let mut run = command(&[&arguments, more].concat());
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            run.env(name, &proxy.url);
        }
        run.env_remove("NO_PROXY").env_remove("no_proxy");
        let output = run.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let seen = (worker.attempts().len(), proxy.attempts().len());
        assert_eq!(seen, expected, "{more:?}");
    }
}

/// The code of such an error says only how the command ended.
#[tokio::test]
async fn the_log_has_the_last_line_of_a_command_that_gives_no_code() {
    let folder = tempfile::tempdir().unwrap();
    let messages = folder.path().join("messages");
    std::fs::write(&messages, "plain\nlong\nsignal\ncode\n").unwrap();
    let script = r#"sh -c 'read body
        echo "first line" >&2
        case $body in
            plain) printf "cannot open \"job.py\": \033[2J\n\n" >&2; exit 2;;
            long) printf "%0300d\n" 7 >&2; exit 3;;
            signal) echo "out of memory" >&2; kill -9 $$;;
            code) echo "{\"errorType\": \"OutOfStock\", \"errorMessage\": \"none left\"}"; exit 4;;
        esac'"#;
    let run = ["run", "--queue-url", "local:orders", "--exec", script];
    let more = [
        "--max-attempts",
        "1",
        "--messages",
        messages.to_str().unwrap(),
    ];
    let output = command(&[&run[..], &more].concat()).output().await.unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let line = |error: &str| {
        let start = format!("WARN dead-letter error={error} ");
        let mut lines = log.lines();
        lines.find(|it| it.contains(&start)).unwrap().to_owned()
    };
    let zeros = "0".repeat(200);
    for (error, shown) in [
        (
            "\"exit 2\"",
            r#" text="cannot open \"job.py\": \u{1b}[2J" message{"#,
        ),
        ("\"exit 3\"", &*format!(" text=\"{zeros}\" message{{")),
        ("\"signal 9\"", " text=\"out of memory\" message{"),
        ("OutOfStock", " by=\"bound\" message{"),
    ] {
        assert!(line(error).contains(shown), "{error}: {log}");
    }
}

#[tokio::test]
async fn a_failed_command_is_described_by_its_exit_code_its_stderr_and_its_last_line() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    queues
        .send(["exit", "shaped", "data", "said", "boto", "signal"].map(str::to_owned))
        .await;
    let script = r#"sh -c 'case $(cat) in
        exit) echo out; echo "first line" >&2; echo "attempt $BACKSTOP_ATTEMPT" >&2; exit 3;;
        shaped) echo "{\"errorType\": \"OutOfStock\", \"errorMessage\": \"none left\"}"; exit 1;;
        data) exit 65;;
        said) echo "{\"errorType\": \"TimeoutError\", \"errorMessage\": \"late\"}"; exit 65;;
        boto) echo "Traceback" >&2
            echo "botocore.exceptions.ClientError: An error occurred (ValidationException) when calling the PutItem operation: bad" >&2
            exit 1;;
        signal) kill -9 $$;;
    esac'"#;
    let more = [
        "--exec",
        script,
        "--max-attempts",
        "1",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("all are dead-lettered", || async {
        queues.dead().await == 6
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
        ("exit 65", "TimeoutError: late", "permanent"),
        (
            "ValidationException",
            "Traceback\nbotocore.exceptions.ClientError: An error occurred (ValidationException) when calling the PutItem operation: bad",
            "permanent",
        ),
        ("signal 9", "", "transient"),
    ];
    assert_eq!(
        errors,
        expected
            .map(|(code, message, class)| (code.to_owned(), message.to_owned(), class.to_owned()))
            .into()
    );
}

/// It lacks file descriptors in this test; processes and memory are handled alike.
#[tokio::test]
async fn a_command_that_can_t_be_started_for_lack_of_resources_counts_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (messages, attempts, records) = (
        in_folder("messages"),
        in_folder("attempts"),
        in_folder("decisions.jsonl"),
    );
    std::fs::write(&messages, "work\n").unwrap();
    let script =
        format!("sh -c 'echo $BACKSTOP_ATTEMPT >> {attempts}; test $BACKSTOP_ATTEMPT -gt 1'");
    let arguments = [
        &["--queue-url", "local:try", "--messages", &messages][..],
        &["--exec", &script, "--decisions", &records],
        &["--policy", "linear", "--set", "base=1s"],
    ];
    let running = Running::start(&arguments.concat()).await;
    let done = || std::fs::read_to_string(&attempts).unwrap_or_default();
    eventually("the first attempt is over", || async { done() == "1\n" }).await;
    let id = Pid::from_raw(i32::try_from(running.id()).unwrap());
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        ..before
    };
    prlimit(id, Resource::Nofile, none).unwrap();
    eventually("the second can't be started", || async {
        running.log().contains("the worker is unavailable")
    })
    .await;
    prlimit(id, Resource::Nofile, before).unwrap();
    let (code, counts) = running.ended().await;
    assert_eq!((code, counts[0]["succeeded"].as_u64()), (0, Some(1)));
    assert_eq!(done().lines().count(), 2);
    assert_eq!(read_records(records.as_ref()).len(), 1);
}

#[tokio::test]
async fn a_function_is_invoked_for_each_message_and_its_error_goes_to_the_policy() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    Function::python(FAILS_WHEN_TOLD)
        .make(&queues.endpoint, "orders")
        .await;
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("decisions.jsonl");
    queues
        .send([r#"{"fail": false}"#, r#"{"fail": true}"#].map(str::to_owned))
        .await;
    let more = [
        "--lambda",
        "orders",
        "--max-attempts",
        "1",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
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

#[tokio::test]
async fn a_decision_record_contains_everything_that_the_decision_was_made_from() {
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
        "--policy",
        "equal-jitter",
        "--set",
        "base=100ms",
        "--decisions",
        records.to_str().unwrap(),
    ];
    let running = serve(&queues, &worker, &more).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.stop().await;
    let [record] = &read_records(&records)[..] else {
        panic!("one record")
    };
    let parsed: backstop_records::DecisionRecord = serde_json::from_value(record.clone()).unwrap();
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

    // Repeating the decision from the record alone has the same result.
    let sandbox = backstop_engine::Sandbox::new(Default::default()).unwrap();
    let policy = backstop_versions::load(&sandbox, "equal-jitter", &[("base", "100ms")]).unwrap();
    assert_eq!(policy.parts().next().unwrap(), parsed.policy[0]);
    let again = policy
        .evaluate(failure, &Default::default())
        .answer
        .unwrap();
    assert_eq!(
        (again.class, again.action),
        (parsed.decision.class, parsed.decision.action)
    );
}

#[tokio::test]
async fn a_command_that_leaves_a_background_process_still_succeeds() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(["one".to_owned()]).await;
    // In its own session, the background process outlives the group and keeps the output open.
    let script = "sh -c 'setsid sleep 100 & exit 0'";
    let started = backstop_core::clock::instant();
    let running = Running::start(&[&queues.arguments()[..], &["--exec", script]].concat()).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    let (_, counts) = running.stop().await;
    assert_eq!(counts[0]["succeeded"].as_u64(), Some(1));
}
