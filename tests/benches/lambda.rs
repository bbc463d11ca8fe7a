//! What the Lambda retry handler costs, compared with the plain pattern in Python: time to the first event, API requests, CPU time and memory; and what the packages for Python and Node.js add to the cold start of a function.
//!
//! `make bench` runs it. Both handlers run as on Lambda, as a process that requests events from a Runtime API, which the benchmark implements. SQS is fauxqs, behind a proxy that counts. Lambda is a stub that takes every asynchronous invocation and counts: an emulator would run a function on the same processors. Everything is on the loopback address and without TLS, and the programs are in the page cache.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

#[path = "lambda/cold_starts.rs"]
mod cold_starts;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri};
use backstop_core::clock;
use backstop_engine::{Architecture, builtin, compile_ahead};
use backstop_queue::BATCH_ENTRIES;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::program;
use backstop_tests::documents::top;
use backstop_tests::emulator::{fauxqs, services};
use backstop_tests::process::{peak_memory, processor_seconds};
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::runtime_api::RuntimeApi;
use backstop_tests_host::mapping::{Mapping, as_lambda_does};
use backstop_tests_host::retries::record;
use serde_json::json;
use tempfile::TempDir;
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Starts of each handler, in turns.
const STARTS: usize = 15;

/// The number of records of failed events. Each is delayed once and invoked once.
const RECORDS: usize = 1_000;

/// The maximum delay of a record, in seconds. Its second receive comes later.
const HELD: u64 = 10;

/// The function whose failures are retried.
const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders:$LATEST";

const ABOUT: &str = "The comparison is the handler that is usually written by hand, in Python with boto3. Both run as on Lambda, as a process that asks a Runtime API for events; SQS is fauxqs behind a proxy that counts, Lambda a stub that accepts every invocation. Without TLS and with the programs in the page cache, so these are not the times of Lambda's own machines. 15 starts each, in turns. The functions of the last table run on an emulator of Lambda, behind the retry handler's envelope, 41 starts each, in turns; what a start takes is measured in the function.";

#[derive(Debug, Clone, Copy)]
enum Handler {
    Precompiled,
    Compiling,
    Plain,
}

#[tokio::main]
async fn main() {
    let mut chapter = Chapter::new("lambda", "The Lambda retry handler", ABOUT);
    let package = package();
    let (mut precompiled, mut compiling, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        precompiled.push(time_to_start(Handler::Precompiled, package.path()).await);
        compiling.push(time_to_start(Handler::Compiling, package.path()).await);
        plain.push(time_to_start(Handler::Plain, package.path()).await);
    }
    let mut table = Table::new("From the start of the process to its first request for an event")
        .column("time", Unit::Milliseconds, Better::Less);
    let milliseconds = |times: Vec<Duration>| {
        [Figure::of(
            times.into_iter().map(|it| 1e3 * it.as_secs_f64()),
        )]
    };
    table.ours("backstop-lambda", milliseconds(precompiled));
    table.ours(
        "backstop-lambda that compiles its policy",
        milliseconds(compiling),
    );
    table.theirs("the plain pattern, Python", milliseconds(plain));
    chapter.add(table);

    let ours = handle_all(Handler::Precompiled, package.path()).await;
    let plain = handle_all(Handler::Plain, package.path()).await;
    chapter.add(records(&ours, &plain));
    chapter.add(cold_starts::table().await);
    chapter.write();
}

/// The part of a package of `make lambda` that a start reads: the compiled policies.
fn package() -> TempDir {
    let package = tempfile::tempdir().unwrap();
    let folder = package.path().join("compiled");
    let architecture = Architecture::of_this_program().unwrap();
    for name in ["full-jitter", "linear"] {
        let file = builtin::bytes(name).unwrap();
        compile_ahead(file, architecture, usize::MAX, &folder).unwrap();
    }
    // With any umask, because files that others may write to are rejected.
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    package
}

/// The handler as a process, with Lambda's environment and these additional variables.
fn start(
    handler: Handler,
    package: &Path,
    api: &RuntimeApi,
    variables: &[(&str, &str)],
    log: Stdio,
) -> Child {
    let plain = top().join("tests/benches/plain");
    let mut command = match handler {
        Handler::Precompiled | Handler::Compiling => Command::new(program("backstop-lambda")),
        Handler::Plain => Command::new(services().join("python/bin/python3")),
    };
    let root = match handler {
        Handler::Precompiled => package,
        Handler::Compiling => Path::new("/var/task"),
        Handler::Plain => {
            command.arg("-B").arg(plain.join("bootstrap.py"));
            &plain
        }
    };
    as_lambda_does(&mut command, root, api)
        // No code that an earlier start compiled.
        .env("BACKSTOP_CACHE", "off")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn time_to_start(handler: Handler, package: &Path) -> Duration {
    let api = RuntimeApi::start().await;
    let variables = [
        ("BACKSTOP_POLICY", "full-jitter"),
        ("RETRY_QUEUE_URL", "http://127.0.0.1:1/000000000000/retries"),
        (
            "DEAD_LETTER_QUEUE_URL",
            "http://127.0.0.1:1/000000000000/dead",
        ),
        ("BACKSTOP_FUNCTIONS", "orders"),
        ("MAX_RETRIES", "11"),
        ("BASE_BACKOFF", "1"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ];
    let started = clock::instant();
    let mut process = start(handler, package, &api, &variables, Stdio::piped());
    let asked = api.first_asked().await;
    process.start_kill().unwrap();
    // No warnings: the policy is found, and its compiled code is used.
    let log = process.wait_with_output().await.unwrap().stdout;
    let log = String::from_utf8_lossy(&log);
    assert!(
        !log.contains("\"WARN\"") && !log.contains("\"ERROR\""),
        "{log}"
    );
    asked - started
}

/// The cost of a handler for all records.
struct Spent {
    requests: BTreeMap<String, usize>,
    cpu: f64,
    peak: f64,
}

type Requests = Arc<Mutex<BTreeMap<String, usize>>>;

/// Passes every record to a handler twice: too early, and when it is due.
async fn handle_all(handler: Handler, package: &Path) -> Spent {
    let requests = Requests::default();
    let count = Arc::clone(&requests);
    let sqs = Proxy::start(&fauxqs().endpoint, move |operation, _| {
        *count
            .lock()
            .unwrap()
            .entry(operation.to_owned())
            .or_default() += 1;
        Fault::None
    })
    .await;
    let lambda = lambda(Arc::clone(&requests)).await;
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    queues.redrive_after(1_000).await;
    let held = HELD.to_string();
    let variables = [
        ("AWS_ENDPOINT_URL_SQS", sqs.endpoint.as_str()),
        ("AWS_ENDPOINT_URL_LAMBDA", &lambda),
        ("BACKSTOP_RETRY_QUEUE_URL", &queues.url),
        ("BACKSTOP_POLICY", "linear"),
        ("BACKSTOP_SETTINGS", &format!("base={held}s")),
        ("RETRY_QUEUE_URL", &queues.url),
        ("DEAD_LETTER_QUEUE_URL", &queues.dead_letters),
        ("MAX_RETRIES", "11"),
        ("BASE_BACKOFF", &held),
    ];
    let api = RuntimeApi::start().await;
    // Its log lines are written, as on Lambda, and discarded.
    let process = start(handler, package, &api, &variables, Stdio::null());
    api.first_asked().await;
    let id = process.id().unwrap();

    queues.send((0..RECORDS).map(failed)).await;
    let mapping = Mapping::of(&queues).await;
    let (mut kept, before) = (0, processor_seconds(id));
    for _ in 0..RECORDS / BATCH_ENTRIES {
        kept += mapping.hand_over(&api).await.unwrap();
    }
    let mut spent = processor_seconds(id) - before;
    assert!(kept >= RECORDS * 9 / 10, "only {kept} records were held");
    // Lambda freezes an idle process, so the wait does not count.
    sleep(Duration::from_secs(HELD + 1)).await;
    let before = processor_seconds(id);
    while mapping.hand_over(&api).await.is_some() || queues.held().await > 0 {}
    spent += processor_seconds(id) - before;

    assert_eq!(queues.dead().await, 0);
    let requests = requests.lock().unwrap().clone();
    assert_eq!(requests.get("Invoke"), Some(&RECORDS));
    Spent {
        requests,
        cpu: spent,
        peak: peak_memory(id),
    }
}

/// Lambda's side of an asynchronous invocation: the event is accepted. Nothing else is allowed.
async fn lambda(requests: Requests) -> String {
    let take = move |uri: Uri| async move {
        if !uri.path().ends_with("/invocations") {
            // The role may not look its mapping up.
            return StatusCode::FORBIDDEN;
        }
        *requests
            .lock()
            .unwrap()
            .entry("Invoke".to_owned())
            .or_default() += 1;
        StatusCode::ACCEPTED
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(take);
    tokio::spawn(async move { axum::serve(listener, router).await });
    endpoint
}

/// The record of a first failed attempt at this time.
fn failed(number: usize) -> String {
    let id = format!("10000000-0000-4000-8000-{number:012}");
    let order =
        json!({"order": number, "customer": "c-1", "lines": [{"article": "a-1", "count": 2}]});
    record(FUNCTION, &id, clock::now(), &order, "Upstream")
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn records(ours: &Spent, plain: &Spent) -> Table {
    let each = |count: usize| count as f64 / RECORDS as f64;
    let figures = |spent: &Spent| {
        [
            each(spent.requests.values().sum()),
            each(spent.requests.get("Invoke").copied().unwrap_or_default()),
            1e3 * spent.cpu / RECORDS as f64,
            spent.peak,
        ]
        .map(Figure::exact)
    };
    let mut table =
        Table::new("1,000 records in batches of 10, each delayed once and invoked once")
            .column("requests a record", Unit::Number, Better::Less)
            .column("invocations a record", Unit::Number, None)
            .column("processor time a record", Unit::Milliseconds, Better::Less)
            .column("peak memory", Unit::Mebibytes, Better::Less);
    table.ours("backstop-lambda", figures(ours));
    table.theirs("the plain pattern, Python", figures(plain));
    table
}
