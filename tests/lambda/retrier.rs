//! A function in Rust that retries its own calls (examples/rust-retrier): its remaining time ends them, and the event goes to the retry queue with the retrier's error.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::program;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::lambda::{Function, invoke, map, send_failures, unmap};
use backstop_tests::runtime_api::RuntimeApi;
use backstop_tests::worker::Worker;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const PROGRAM: &str = "rust-retrier";

/// The function's time in seconds: enough for some attempts, and no more than a test can wait.
const TIME: i32 = 4;

#[tokio::test]
async fn the_remaining_time_ends_its_retries_and_the_event_is_retried_with_its_error() {
    let endpoint = &ministack().endpoint;
    let is_up = Arc::new(AtomicBool::new(false));
    let service = Arc::clone(&is_up);
    let payments = Worker::answering(move |_| {
        if service.load(Ordering::SeqCst) {
            200
        } else {
            503
        }
    })
    .await;
    let queues = Queues::standard(endpoint, &[(Q::VisibilityTimeout, "60")]).await;
    queues.redrive_after(1_000).await;
    let arn = queues.arn().await;
    let function = Function {
        timeout: TIME,
        ..Function::of_program(PROGRAM)
    };
    let function = function.with("PAYMENTS_URL", &payments.url);
    function.make(endpoint, "charge").await;
    send_failures(endpoint, "charge", &arn).await;
    invoke(endpoint, "charge", &json!({"order": 7})).await;

    eventually("the event is in the retry queue", || async {
        queues.held().await == 1
    })
    .await;
    let (body, _) = queues.take_left().await.pop_first().unwrap();
    let mut record: Value = serde_json::from_str(&body).unwrap();
    // Not `Sandbox.Timedout`.
    let failed = &record["responsePayload"];
    assert_eq!(failed["errorType"], "HTTP 503", "{record}");
    let text = failed["errorMessage"].as_str().unwrap();
    assert!(
        text.starts_with("the deadline ended the call after"),
        "{text}"
    );
    let tried = payments.attempts();
    assert!(tried.len() >= 3, "{}", tried.len());
    assert!(
        text.contains(&format!("after {} attempts", tried.len())),
        "{text}"
    );
    let took = tried.last().unwrap().at - tried[0].at;
    assert!(
        took < Duration::from_secs(TIME.unsigned_abs().into()),
        "{took:?}"
    );

    // The cause is mended, and the retry handler invokes the function again.
    is_up.store(true, Ordering::SeqCst);
    // AWS has it in the record, this emulator does not.
    record["requestContext"]["requestId"] =
        tried[0].headers["idempotency-key"].to_str().unwrap().into();
    queues.send([record.to_string()]).await;
    Function::retry_handler()
        .with("AWS_ENDPOINT_URL", endpoint)
        .with("BACKSTOP_RETRY_QUEUE_URL", &queues.url)
        .with("BACKSTOP_POLICY", "linear")
        .with("BACKSTOP_SETTINGS", "base=1s")
        .make(endpoint, "retries-charge")
        .await;
    let mapping = map(endpoint, "retries-charge", &arn).await;
    eventually("the order is charged", || async {
        payments.attempts().len() > tried.len() && queues.held().await == 0
    })
    .await;
    unmap(endpoint, &mapping).await;
    let all = payments.attempts();
    assert_eq!(all.len(), tried.len() + 1);
    for attempt in &all {
        // The emulator writes spaces.
        let order: Value = serde_json::from_str(&attempt.body).unwrap();
        assert_eq!(order, json!({"order": 7}));
        assert_eq!(
            attempt.headers["idempotency-key"],
            tried[0].headers["idempotency-key"]
        );
    }
    assert_eq!(queues.dead().await, 0);
}

#[tokio::test]
async fn each_attempt_has_a_line_of_metrics_that_cloudwatch_accepts() {
    let payments = Worker::answering(|attempt| {
        if attempt.body.contains("never") {
            503
        } else {
            200
        }
    })
    .await;
    let api = RuntimeApi::with_time(Duration::from_secs(3)).await;
    let mut function = Command::new(program(PROGRAM))
        .env("AWS_LAMBDA_RUNTIME_API", &api.address)
        .env("AWS_LAMBDA_FUNCTION_NAME", "charge")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", "charge")
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "1")
        .env("PAYMENTS_URL", &payments.url)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut output = BufReader::new(function.stdout.take().unwrap()).lines();
    let began = clock::instant();
    let ended = api.invoke(json!({"order": "never"}).to_string()).await;
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "the function answers in time"
    );
    assert_eq!(ended.unwrap_err()["errorType"], "HTTP 503");
    let failed = payments.attempts().len();
    // The service gets the bytes of the event, whatever a parser would make of them.
    let event = r#"{"order": 8, "id": 12345678901234567890123, "b": 1.10, "a": [ ]}"#;
    let answer = api.invoke(event.to_owned()).await;
    assert_eq!(answer.unwrap(), json!({"status": 200}));
    assert_eq!(payments.attempts().last().unwrap().body, event);

    let mut lines: Vec<Value> = Vec::new();
    while lines.len() < failed + 1 {
        let line = output.next_line().await.unwrap().unwrap();
        // Nothing around the object.
        lines.push(serde_json::from_str(&line).unwrap());
    }
    for line in &lines {
        let directives = line["_aws"]["CloudWatchMetrics"].as_array().unwrap();
        assert_eq!(directives.len(), 1);
        assert_eq!(directives[0]["Dimensions"], json!([["service", "retrier"]]));
        assert!(line["service"].is_string() && line["retrier"].is_string());
        assert!(line["_aws"]["Timestamp"].is_u64() && line["level"].is_string());
        for metric in directives[0]["Metrics"].as_array().unwrap() {
            assert!(line[metric["Name"].as_str().unwrap()].is_number(), "{line}");
        }
    }
    let total = |name: &str| {
        lines
            .iter()
            .filter_map(|line| line[name].as_u64())
            .sum::<u64>()
    };
    let failed = u64::try_from(failed).unwrap();
    assert_eq!(total("Failures"), failed);
    assert_eq!(total("Attempts"), failed + 1);
    assert_eq!(total("DeadlineExceeded"), 1);
    assert_eq!(total("Succeeded"), 1);
    assert!(failed >= 2);
}
