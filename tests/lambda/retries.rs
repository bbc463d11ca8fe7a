//! The Lambda retry handler end to end: real functions, a real mapping and real queues of an emulator; time is compressed by settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_host::lambda::{Batch, BatchError, start};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_engine::{Compiled, PolicyDigest};
use backstop_host::config::Config;
use backstop_queue::{Connections, Queue, Sqs, VisibilityTimeout};
use backstop_tests::aws::{self, Queues, config, text};
use backstop_tests::backstop::program;
use backstop_tests::emulator::{ministack, moto};
use backstop_tests::lambda::{Function, ORDERS, invoke, map, send_failures, unmap};
use backstop_tests::policies::waits;
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::runtime_api::RuntimeApi;
use backstop_tests_host::mapping::as_lambda_does;
use backstop_tests_host::retries::{corpus, event, record, rfc3339};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

/// A function that fails, its retry queue, and the handler behind it.
struct Pipeline {
    queues: Queues,
    function: String,
    mapping: String,
    folder: TempDir,
}

impl Pipeline {
    /// Sets up a pipeline for one test, with these variables for the handler in addition to its queues.
    async fn start(name: &str, variables: &[(&str, &str)]) -> Self {
        // Longer than any batch takes on a busy machine, so that no record is delivered twice.
        Self::start_at(name, &ministack().endpoint, "60", variables).await
    }

    /// Like [`Pipeline::start`], with the handler's requests sent to `handler_endpoint`, and this visibility timeout.
    async fn start_at(
        name: &str,
        handler_endpoint: &str,
        visibility: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut handler = Function::retry_handler()
            .with("AWS_ENDPOINT_URL", handler_endpoint)
            .with("BACKSTOP_POLICY", "linear")
            .with("BACKSTOP_SETTINGS", "base=1s,cap=2s");
        for (name, value) in variables {
            handler = handler.with(name, value);
        }
        Self::with_handler(name, visibility, handler).await
    }

    /// Sets up a pipeline for one test with this handler, and configures its queues and records.
    async fn with_handler(name: &str, visibility: &str, handler: Function) -> Self {
        let endpoint = &ministack().endpoint;
        let queues = Queues::standard(endpoint, &[(Q::VisibilityTimeout, visibility)]).await;
        queues.redrive_after(1_000).await;
        let folder = tempfile::tempdir().unwrap();
        let function = format!("orders-{name}");
        Function::python(ORDERS)
            .with("LOG", log(folder.path()).to_str().unwrap())
            .make(endpoint, &function)
            .await;
        let arn = queues.arn().await;
        send_failures(endpoint, &function, &arn).await;
        let name = format!("retries-{name}");
        let records = records(folder.path());
        handler
            .with("BACKSTOP_RETRY_QUEUE_URL", &queues.url)
            .with("BACKSTOP_DECISIONS", records.to_str().unwrap())
            .make(endpoint, &name)
            .await;
        let mapping = map(endpoint, &name, &arn).await;
        Self {
            queues,
            function,
            mapping,
            folder,
        }
    }

    async fn order(&self, order: &str, fails: Value) {
        let event = json!({"order": order, "fails": fails});
        invoke(&self.queues.endpoint, &self.function, &event).await;
    }

    /// The attempts so far, in order, by order.
    fn attempts(&self) -> BTreeMap<String, Vec<Value>> {
        let mut attempts: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in lines(&log(self.folder.path())) {
            let order = line["order"].as_str().unwrap().to_owned();
            attempts.entry(order).or_default().push(line);
        }
        attempts
    }

    /// Waits until this many orders have succeeded or are dead-lettered.
    async fn settled(&self, orders: usize) {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let attempts = self.attempts();
            let is_done = |lines: &Vec<Value>| lines.iter().any(|line| line["failed"].is_null());
            let done = attempts.values().filter(|lines| is_done(lines)).count();
            let (dead, held) = (self.queues.dead().await, self.queues.held().await);
            if done + dead >= orders && held == 0 {
                return;
            }
            assert!(
                Instant::now() < end,
                "after two minutes {done} of {orders} orders are done, {dead} dead and {held} in the queue: {attempts:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn stop(&self) {
        unmap(&self.queues.endpoint, &self.mapping).await;
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("attempts.jsonl")
}

fn records(folder: &Path) -> PathBuf {
    folder.join("decisions.jsonl")
}

/// The complete lines of a file that several processes write to. A process that finds an incomplete line writes a line break first.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = complete.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn failed_events_are_held_retried_and_dead_lettered_and_none_is_lost() {
    let pipeline = Pipeline::start("main", &[("BACKSTOP_MAX_ATTEMPTS", "4")]).await;
    for number in 0..5 {
        pipeline.order(&format!("fine-{number}"), json!([])).await;
        pipeline
            .order(&format!("flaky-{number}"), json!([["Upstream", 2]]))
            .await;
        pipeline
            .order(
                &format!("wrong-{number}"),
                json!([["ValidationException", 9]]),
            )
            .await;
        pipeline
            .order(&format!("broken-{number}"), json!([["Upstream", 99]]))
            .await;
        pipeline
            .order(
                &format!("turning-{number}"),
                json!([["Upstream", 1], ["AccessDeniedException", 9]]),
            )
            .await;
    }
    let gone = "arn:aws:lambda:us-east-1:000000000000:function:gone:live";
    pipeline
        .queues
        .send([record(
            gone,
            "r-1",
            Timestamp(0),
            &json!({"order": "gone"}),
            "Upstream",
        )])
        .await;
    pipeline.settled(26).await;
    pipeline.stop().await;

    let dead = pipeline.queues.take_dead().await;
    let reasons_of = |order: &str| -> Vec<String> {
        let is_of = |body: &&String| body.contains(&format!("\"{order}\""));
        let found = dead.iter().filter(|(body, _)| is_of(body));
        found
            .map(|(_, letter)| text(letter, "BackstopReason").unwrap().to_owned())
            .collect()
    };

    // Exact counts: each attempt has its number, and retries have one id.
    let attempts = pipeline.attempts();
    assert_eq!(attempts.len(), 25);
    for (order, lines) in &attempts {
        let expected = match order.split('-').next().unwrap() {
            "fine" | "wrong" => 1,
            "turning" => 2,
            "flaky" => 3,
            _ => 4,
        };
        let numbers: Vec<_> = lines
            .iter()
            .map(|line| line["attempt"].as_u64().unwrap())
            .collect();
        assert_eq!(
            numbers,
            (1..=expected).collect::<Vec<_>>(),
            "{order}: {:?}",
            reasons_of(order)
        );
        // The emulator's records lack the request id of the first attempt; its retries share an id.
        let ids: BTreeSet<_> = lines
            .iter()
            .skip(1)
            .map(|line| line["id"].to_string())
            .collect();
        assert!(ids.len() <= 1, "{order}: {ids:?}");
    }

    let mut reasons = BTreeMap::<_, usize>::new();
    for letter in dead.values() {
        // The letter is the record itself, which can be moved back.
        let record: Value = serde_json::from_str(letter.body().unwrap()).unwrap();
        assert!(
            record["requestPayload"].is_object()
                && record["requestContext"]["functionArn"].is_string()
        );
        *reasons
            .entry(text(letter, "BackstopReason").unwrap().to_owned())
            .or_default() += 1;
        assert!(
            text(letter, "BackstopPolicy")
                .unwrap()
                .starts_with("sha256:")
        );
    }
    let unknown = reasons
        .keys()
        .find(|reason| reason.contains("can't be invoked"))
        .cloned();
    assert!(reasons.remove(&unknown.unwrap()).is_some());
    let expected = [
        ("permanent: AccessDeniedException", 5),
        ("permanent: ValidationException", 5),
        ("the queue's max-attempts of 4 reached: Upstream", 5),
    ];
    assert_eq!(
        reasons,
        expected
            .map(|(reason, count)| (reason.to_owned(), count))
            .into()
    );

    // Each retry was held first, and the decision is the same at each receive.
    let mut delays: BTreeMap<(String, u64), BTreeSet<u64>> = BTreeMap::new();
    for record in lines(&records(pipeline.folder.path())) {
        // A death is an event.
        if record["event"].is_string() {
            continue;
        }
        let attempt = record["failure"]["attempt"].as_u64().unwrap();
        let id = record["failure"]["message-id"].as_str().unwrap().to_owned();
        if let Some(delay) = record["delay"].as_u64() {
            delays.entry((id, attempt)).or_default().insert(delay);
        }
    }
    // One more for the function that does not exist.
    assert_eq!(delays.len(), 5 * (2 + 3 + 1) + 1);
    for ((_, attempt), delays) in delays {
        assert_eq!(delays, [(attempt * 1_000).min(2_000)].into());
    }
}

#[tokio::test]
async fn a_policy_in_the_package_decides() {
    let endpoint = &ministack().endpoint;
    let rule = waits(1_500);
    let handler = Function::retry_handler()
        .with("AWS_ENDPOINT_URL", endpoint)
        .with_file(
            "backstop.toml",
            "[lambda]\npolicy = \"rules/mine.wat\"\nmax-attempts = 3\n",
        )
        .with_file("rules/mine.wat", &rule);
    let pipeline = Pipeline::with_handler("own", "60", handler).await;
    pipeline.order("broken", json!([["Upstream", 99]])).await;
    pipeline.settled(1).await;
    pipeline.stop().await;
    assert_eq!(pipeline.attempts()["broken"].len(), 3);
    let dead = pipeline.queues.take_dead().await;
    let letter = dead.values().next().unwrap();
    let digest = PolicyDigest::of(rule.as_bytes()).to_string();
    assert_eq!(text(letter, "BackstopPolicy"), Some(digest.as_str()));
    let delays = lines(&records(pipeline.folder.path()));
    assert!(
        delays
            .iter()
            .filter_map(|record| record["delay"].as_u64())
            .all(|delay| delay == 1_500)
    );
}

/// Kills every process with this text in its environment.
fn kill(text: &str) -> usize {
    let mut killed = 0;
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let id = process.file_name().to_str().and_then(|id| id.parse().ok());
        let is_match = String::from_utf8_lossy(&environment).contains(text);
        if let (true, Some(id)) = (is_match, id.and_then(Pid::from_raw)) {
            killed += usize::from(kill_process(id, Signal::KILL).is_ok());
        }
    }
    killed
}

/// The state of the proxy that kills the handler.
#[derive(Default)]
struct Crashes {
    mark: String,
    holds: usize,
    invocations: usize,
    killed: usize,
}

#[tokio::test]
async fn a_handler_that_crashes_in_the_middle_of_a_batch_loses_nothing() {
    let crashes: &Mutex<Crashes> = Box::leak(Box::default());
    let proxy = Proxy::start(&ministack().endpoint, |operation, _| {
        let mut crashes = crashes.lock().unwrap();
        match operation {
            // Before the first batch is delayed: the request is not executed.
            "ChangeMessageVisibilityBatch" => {
                crashes.holds += 1;
                if crashes.holds == 1 {
                    crashes.killed += kill(&crashes.mark);
                    return Fault::ServerError;
                }
            }
            // Between an invocation and the delete of its message: the invocation is executed.
            "Invoke" => {
                crashes.invocations += 1;
                if crashes.invocations == 3 {
                    crashes.killed += kill(&crashes.mark);
                }
            }
            _ => {}
        }
        Fault::None
    })
    .await;
    let mark = format!("BACKSTOP_TEST={}", proxy.endpoint);
    crashes.lock().unwrap().mark.clone_from(&mark);
    let variables = [("BACKSTOP_TEST", proxy.endpoint.as_str())];
    let pipeline = Pipeline::start_at("crash", &proxy.endpoint, "10", &variables).await;
    for number in 0..10 {
        pipeline
            .order(&number.to_string(), json!([["Upstream", 2]]))
            .await;
    }
    pipeline.settled(10).await;
    pipeline.stop().await;

    // Twice, each time in every execution environment.
    assert!(crashes.lock().unwrap().killed >= 2);
    assert_eq!(pipeline.queues.dead().await, 0);
    let attempts = pipeline.attempts();
    assert_eq!(attempts.len(), 10);
    let mut twice = 0;
    for (order, lines) in &attempts {
        let numbers: BTreeSet<_> = lines
            .iter()
            .map(|line| line["attempt"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, [1, 2, 3].into(), "{order}");
        twice += lines.len() - numbers.len();
    }
    // Delivery is at least once: an invoked message that is not yet deleted is invoked again with the same id and attempt.
    assert!(twice <= 20, "{twice}");
}

#[tokio::test]
async fn more_attempts_than_recursion_detection_allows_are_rejected_until_it_is_off() {
    let endpoint = &ministack().endpoint;
    let client = aws_sdk_lambda::Client::new(&config(endpoint).await);
    let invoke = || call(&client, "retries-chain", json!({"Records": []}));
    Function::python(ORDERS)
        .make(endpoint, "orders-chain")
        .await;
    Function::retry_handler()
        .with("AWS_ENDPOINT_URL", endpoint)
        .with("BACKSTOP_MAX_ATTEMPTS", "20")
        .with("BACKSTOP_FUNCTIONS", "orders-chain")
        .make(endpoint, "retries-chain")
        .await;
    assert!(invoke().await.0.is_some());
    for function in ["retries-chain", "orders-chain"] {
        assert!(invoke().await.0.is_some());
        client
            .put_function_recursion_config()
            .function_name(function)
            .recursive_loop(aws_sdk_lambda::types::RecursiveLoop::Allow)
            .send()
            .await
            .unwrap();
    }
    assert_eq!(invoke().await, (None, json!({"batchItemFailures": []})));
}

/// Invokes a function and waits for its response: the error, if any, and the payload.
async fn call(
    client: &aws_sdk_lambda::Client,
    name: &str,
    event: Value,
) -> (Option<String>, Value) {
    let event = aws_sdk_lambda::primitives::Blob::new(event.to_string());
    let response = client
        .invoke()
        .function_name(name)
        .payload(event)
        .send()
        .await
        .unwrap();
    let payload = response
        .payload
        .map(|payload| payload.into_inner())
        .unwrap_or_default();
    (
        response.function_error,
        serde_json::from_slice(&payload).unwrap_or_default(),
    )
}

#[tokio::test]
async fn a_function_in_rust_sees_the_same_event_at_each_attempt() {
    let endpoint = &ministack().endpoint;
    let client = aws_sdk_lambda::Client::new(&config(endpoint).await);
    Function::of_program("rust-function")
        .make(endpoint, "rust")
        .await;
    let order = json!({"order": 7, "answers_from": 2});
    let (error, result) = call(&client, "rust", order.clone()).await;
    assert!(error.is_some());
    assert_eq!(result["errorType"], "PaymentServiceAway");
    let retried = json!({
        "_retry_metadata": {"attempt": 2, "initial_timestamp": 1_767_225_600, "id": "first"},
        "_original_payload": order,
    });
    let (error, result) = call(&client, "rust", retried).await;
    let expected =
        json!({"order": 7, "attempt": 2, "first_seen": 1_767_225_600, "idempotency_key": "first"});
    assert_eq!((error, result), (None, expected));
    // A first attempt has its own request id.
    let (_, result) = call(&client, "rust", json!({"order": 8})).await;
    assert_eq!(
        (&result["attempt"], &result["first_seen"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(result["idempotency_key"].as_str().unwrap().len(), 36);
}

/// moto's Lambda accepts invocations and runs nothing, so the queues show the outcome of each record.
#[tokio::test]
async fn every_record_of_the_corpus_is_handled_on_another_emulator() {
    let endpoint = &moto().endpoint;
    let function = simple_function(endpoint, "corpus").await;
    let queues = Queues::standard(endpoint, &[]).await;
    queues.redrive_after(1_000).await;
    let variables = BTreeMap::from([
        ("BACKSTOP_RETRY_QUEUE_URL", queues.url.as_str()),
        ("BACKSTOP_POLICY", "linear"),
        ("BACKSTOP_SETTINGS", "base=1h"),
    ]);
    let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
    let config = Config::of_lambda(&variable).unwrap();
    let connections = Arc::new(Connections::with_sdk(aws::config(endpoint).await));
    let started = start(&config, Compiled::default(), None, connections)
        .await
        .unwrap();

    // They failed yesterday, so their retries are due, except for two that must be held.
    let yesterday = Timestamp(clock::now().0 - 86_400_000);
    let cases = corpus(&function, yesterday);
    let held = corpus(&function, clock::now());
    let held = &held[..2];
    let bodies = cases.iter().chain(held).map(|case| case.body.clone());
    queues.send(bodies).await;
    let arn = queues.arn().await;
    let (mut handled, mut kept) = (0, 0);
    while handled < cases.len() + held.len() {
        let batch = receive(&queues, &arn).await;
        handled += batch.records.len();
        let deadline = Instant::now() + Duration::from_secs(60);
        // The handler does not know its own function, and so not whether its response is read.
        kept += match started.handler.handle(batch, deadline).await {
            Ok(response) => response.batch_item_failures.len(),
            Err(BatchError::Unreported(some)) => some,
            Err(other) => panic!("{other}"),
        };
    }

    // A record without a time counts from when its message was sent, just now.
    let has_time = |body: &str| body.contains(&rfc3339(yesterday));
    let timeless = cases
        .iter()
        .filter(|case| case.is_invoked && !has_time(&case.body));
    let waiting = held.len() + timeless.count();
    assert_eq!(kept, waiting);
    // The handler deletes finished messages itself, so only waiting ones are left.
    assert_eq!(queues.held().await, waiting);
    let dead = queues.take_dead().await;
    // This emulator accepts invocations of functions that do not exist.
    for case in cases.iter().filter(|case| !case.name.contains("gone")) {
        let letter = dead.get(&case.body);
        assert_eq!(letter.is_none(), case.is_invoked, "{}", case.name);
        if let Some(letter) = letter {
            let reason = text(letter, "BackstopReason").unwrap();
            assert!(reason.starts_with(&case.reason), "{}: {reason}", case.name);
        }
    }
}

/// An abandoned batch would be delivered again only after the visibility timeout, and due retries need no dead-letter queue.
#[tokio::test]
async fn a_cold_start_survives_a_failed_request_and_does_not_wait_for_a_hanging_dead_letter_queue()
{
    let endpoint = &moto().endpoint;
    let function = simple_function(endpoint, "cold").await;
    let queues = Queues::standard(endpoint, &[]).await;
    queues.redrive_after(1_000).await;
    let lookups = AtomicU32::new(0);
    let proxy = Proxy::start(endpoint, move |operation, _| match operation {
        "GetQueueAttributes" if lookups.fetch_add(1, Ordering::Relaxed) == 0 => Fault::ServerError,
        // The dead-letter queue is looked up by the ARN in the redrive policy.
        "GetQueueUrl" => Fault::Hanging,
        _ => Fault::None,
    })
    .await;
    let name = function.rsplit(':').next().unwrap();
    let variable = |variable: &str| match variable {
        "BACKSTOP_RETRY_QUEUE_URL" => Some(queues.url.clone()),
        "BACKSTOP_FUNCTIONS" => Some(name.to_owned()),
        _ => None,
    };
    let config = Config::of_lambda(&variable).unwrap();
    let connections = Arc::new(Connections::with_sdk(aws::config(&proxy.endpoint).await));
    let started = start(&config, Compiled::default(), None, connections);
    let started = started.await.unwrap();

    let yesterday = Timestamp(clock::now().0 - 86_400_000);
    let of = |code: &str| record(&function, "r-0", yesterday, &json!({"order": code}), code);
    let dead = of("ValidationException");
    queues.send([of("Upstream"), dead]).await;
    let arn = queues.arn().await;
    let batch = receive(&queues, &arn).await;
    assert_eq!(batch.records.len(), 2);
    let deadline = Instant::now() + Duration::from_secs(60);
    // The handler does not know its own function, and so not whether its response is read.
    let failed = started.handler.handle(batch, deadline).await.unwrap_err();
    assert!(matches!(failed, BatchError::Unreported(1)), "{failed}");
    assert_eq!((queues.held().await, queues.dead().await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_logs_the_allowed_functions_and_unknown_variables() {
    for (functions, expected) in [
        ("", "every function that a record names is invoked"),
        ("orders,invoices", "orders, invoices"),
    ] {
        let (folder, api) = (tempfile::tempdir().unwrap(), RuntimeApi::start().await);
        let mut command = Command::new(program("backstop-lambda"));
        let mut process = as_lambda_does(&mut command, folder.path(), &api)
            .env("BACKSTOP_FUNCTIONS", functions)
            .env("BACKSTOP_POLICI", "linear")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut log = String::new();
        while !(log.contains(expected) && log.contains("BACKSTOP_POLICI")) {
            let line = timeout(Duration::from_secs(60), lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("a minute, and only this:\n{log}"));
            log += &line.unwrap().unwrap_or_else(|| panic!("its end:\n{log}"));
        }
    }
}

#[tokio::test]
async fn an_invalid_variable_of_lambda_is_an_error_and_no_panic() {
    let api = RuntimeApi::start().await;
    for (name, value) in [
        ("AWS_LAMBDA_RUNTIME_API", ""),
        ("AWS_LAMBDA_RUNTIME_API", "no address"),
        ("AWS_LAMBDA_RUNTIME_API", "/runtime"),
        ("AWS_LAMBDA_RUNTIME_API", "http://"),
        ("AWS_LAMBDA_RUNTIME_API", ":9001"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "much"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program("backstop-lambda"));
        let output = as_lambda_does(&mut command, folder.path(), &api)
            .env(name, value)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(Duration::from_secs(60), output).await;
        let output = output.expect("it ends by itself").unwrap();
        let log = [output.stdout, output.stderr].concat();
        let log = String::from_utf8_lossy(&log);
        assert_eq!(output.status.code(), Some(1), "{name}={value}: {log}");
        assert!(
            log.contains(&format!("{name} is `{value}`; expected")),
            "{log}"
        );
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// A function that answers without running, and its ARN.
async fn simple_function(endpoint: &str, name: &str) -> String {
    let http = reqwest::Client::new();
    let off = json!({"lambda": {"use_docker": false}});
    let set = http
        .post(format!("{endpoint}/moto-api/config"))
        .json(&off)
        .send()
        .await;
    assert!(set.unwrap().status().is_success());
    let trust = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}]}"#;
    let role = http
        .post(endpoint)
        .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=x")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("Action=CreateRole&Version=2010-05-08&RoleName=test&AssumeRolePolicyDocument={trust}"))
        .send()
        .await;
    // Two tests create it.
    let made = role.unwrap().status();
    assert!(made.is_success() || made == reqwest::StatusCode::CONFLICT);
    Function::python(ORDERS)
        .make_as(endpoint, name, "arn:aws:iam::123456789012:role/test")
        .await
}

/// The next batch, as a mapping hands it over.
async fn receive(queues: &Queues, arn: &str) -> Batch {
    let queue = Sqs::new(&aws::config(&queues.endpoint).await).queue(&queues.url);
    let visibility = VisibilityTimeout::rounded_up(Duration::from_secs(60));
    let messages = queue
        .receive(10, Duration::from_secs(1), visibility)
        .await
        .unwrap();
    event(arn, &messages)
}
