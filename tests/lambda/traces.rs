//! The life of one event, as its traces tell it: it fails, waits, is invoked again, fails again, is dead-lettered, redriven and invoked.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::types::{
    MessageSystemAttributeNameForSends, MessageSystemAttributeValue, QueueAttributeName as Q,
};
use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{command, program, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::runtime_api::{RuntimeApi, TRACE};
use backstop_tests_host::mapping::{Mapping, as_lambda_does};
use backstop_tests_host::retries::record;
use backstop_tests_traces::{Collector, Span};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders";

/// The header of the invocation that failed first.
const FIRST: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/// An invocation: its header with the trace, and its event.
type Invocation = (String, Value);

/// Lambda, as the handler calls it: every invocation is accepted.
#[derive(Debug, Default)]
struct Functions(Mutex<Vec<Invocation>>);

impl Functions {
    /// Starts at a free port. Returns the URL.
    async fn start(self: &Arc<Self>) -> String {
        let functions = Arc::clone(self);
        let app = Router::new().fallback(move |request: Request| {
            let functions = Arc::clone(&functions);
            async move { functions.answer(request).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        url
    }

    async fn answer(&self, request: Request) -> (StatusCode, String) {
        if request.method() == Method::GET {
            let mapping = json!({
                "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:retries",
                "State": "Enabled",
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
            });
            let mappings = json!({"EventSourceMappings": [mapping]});
            return (StatusCode::OK, mappings.to_string());
        }
        let header = request.headers().get("x-amzn-trace-id");
        let header = header.map(|it| it.to_str().unwrap().to_owned());
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await;
        let event = serde_json::from_slice(&body.unwrap()).unwrap();
        let mut invocations = self.0.lock().unwrap();
        invocations.push((header.unwrap_or_default(), event));
        (StatusCode::ACCEPTED, String::new())
    }

    fn invocations(&self) -> Vec<Invocation> {
        self.0.lock().unwrap().clone()
    }
}

struct World {
    queues: Queues,
    api: RuntimeApi,
    functions: Arc<Functions>,
    collector: Collector,
    mapping: Mapping,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(endpoint: impl Fn(&Collector) -> String) -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "60")]).await;
        queues.redrive_after(1_000).await;
        let (folder, api) = (tempfile::tempdir().unwrap(), RuntimeApi::start().await);
        let functions = Arc::<Functions>::default();
        let collector = Collector::start().await;
        let mut handler = Command::new(program("backstop-lambda"));
        let process = as_lambda_does(&mut handler, folder.path(), &api)
            .env("AWS_ENDPOINT_URL", &queues.endpoint)
            .env("AWS_ENDPOINT_URL_LAMBDA", functions.start().await)
            .env("BACKSTOP_RETRY_QUEUE_URL", &queues.url)
            .env("BACKSTOP_POLICY", "linear")
            .env("BACKSTOP_SETTINGS", "base=2s")
            .env("BACKSTOP_MAX_ATTEMPTS", "2")
            .env("OTEL_TRACES_EXPORTER", "otlp")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(&collector))
            // What is not flushed after a batch is not sent before the test ends.
            .env("OTEL_BSP_SCHEDULE_DELAY", "600000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            mapping: Mapping::of(&queues).await,
            queues,
            api,
            functions,
            collector,
            _process: process,
            _folder: folder,
        }
    }

    /// The function has failed with this event, in this trace.
    async fn failed(&self, id: &str, event: &Value, trace: &str) {
        let body = record(FUNCTION, id, clock::now(), event, "Upstream");
        let header = MessageSystemAttributeValue::builder()
            .data_type("String")
            .string_value(trace)
            .build();
        let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
        let send = self.queues.client.send_message();
        let send = send.queue_url(&self.queues.url).message_body(body);
        let send = send.message_system_attributes(name, header.unwrap());
        send.send().await.unwrap();
    }

    /// Lambda hands over what is there until this many invocations were made and nothing is left.
    async fn handled(&self, invocations: usize) {
        eventually("all are handled", || async {
            self.mapping.hand_over(&self.api).await;
            self.functions.invocations().len() >= invocations && self.queues.held().await == 0
        })
        .await;
    }

    fn spans(&self, operation: &str) -> Vec<Span> {
        let mut spans = self.collector.spans();
        spans.retain(|it| it.name.split(' ').next() == Some(operation));
        spans
    }
}

fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", span.trace, span.id)
}

#[tokio::test]
async fn one_event_is_followed_through_its_retries_and_the_dead_letter_queue() {
    let world = World::new(|collector| collector.url().to_owned()).await;
    let first = (
        "5759e988bd862e3fe1be46a994272793".to_owned(),
        "53995c3f42cd8ad8".to_owned(),
    );

    // It fails, waits, and is invoked again.
    world.failed("r-1", &json!({"order": 1}), FIRST).await;
    world.handled(1).await;
    let (header, event) = world.functions.invocations().pop().unwrap();

    // It fails again, and two attempts are the most.
    world.failed("r-2", &event, &header).await;
    eventually("it is dead-lettered", || async {
        world.mapping.hand_over(&world.api).await;
        world.queues.dead().await == 1
    })
    .await;

    // An operator sends it back, and it is invoked at once.
    let redrive = ["dlq", "redrive", &world.queues.dead_letters];
    let to = ["--to", &world.queues.url];
    let endpoint = ["--endpoint-url", &world.queues.endpoint];
    let folder = tempfile::tempdir().unwrap();
    let mut redrive = command(&[&redrive[..], &to, &endpoint].concat());
    redrive
        .env("XDG_STATE_HOME", folder.path())
        .envs(world.collector.variables());
    let output = redrive.output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    world.handled(2).await;

    let (processes, invocations) = (world.spans("process"), world.spans("invoke"));
    let [failed, due, again, back] = &processes[..] else {
        panic!("{processes:?}");
    };
    let [retry, after] = &invocations[..] else {
        panic!("{invocations:?}");
    };
    // The record of a failure continues the trace of its invocation. What comes after a wait has a link.
    assert_eq!((failed.trace.clone(), failed.parent.clone()), first);
    assert_eq!(
        (due.parent.as_str(), &due.links),
        ("", &vec![first.clone()])
    );
    assert!(retry.is_in(due));
    assert_eq!(
        (retry.kind, retry.name.as_str()),
        ("client", &*format!("invoke {FUNCTION}"))
    );
    assert!(again.is_in(retry));
    assert_eq!(again.links, std::slice::from_ref(&first));
    let redrive = &world.spans("redrive")[0];
    assert_eq!(redrive.links.last(), Some(&again.place()));
    assert_eq!(back.parent, "");
    for link in [&first, &redrive.place()] {
        assert!(back.links.contains(link), "{link:?}: {:?}", back.links);
    }
    assert!(after.is_in(back));

    // The function gets the span of its invocation, and the chain is counted on.
    let (time, random) = retry.trace.split_at(8);
    let root = format!("Root=1-{time}-{random};Parent={};Sampled=1", retry.id);
    let (_, lineage) = TRACE.split_once(";Lineage=").unwrap();
    assert_eq!(header, format!("{root};Lineage={lineage}"));
    let metadata = &event["_retry_metadata"];
    assert_eq!(metadata["traceparent"], traceparent(due));
    let creation = format!("00-{}-{}-01", first.0, first.1);
    assert_eq!(metadata["first_traceparent"], creation);
    let (_, last) = world.functions.invocations().pop().unwrap();
    let metadata = &last["_retry_metadata"];
    assert_eq!(metadata["traceparent"], traceparent(back));
    assert_eq!(metadata["first_traceparent"], creation);
    assert_eq!(last["_original_payload"], json!({"order": 1}));

    let verdicts: Vec<_> = world
        .spans("decide")
        .iter()
        .map(|it| it.attribute("backstop.verdict").to_owned())
        .collect();
    assert_eq!(verdicts, ["retry", "retry", "dead-letter"]);
    let attempts = processes.iter().map(|it| it.attribute("backstop.attempt"));
    assert_eq!(attempts.collect::<Vec<_>>(), ["1", "1", "2", "2"]);
    let names: Vec<_> = processes
        .iter()
        .map(|it| &it.resource["service.name"])
        .collect();
    assert_eq!(names, ["retries"; 4]);
    let ids = processes
        .iter()
        .map(|it| it.attribute("messaging.message.id"));
    assert!(ids.into_iter().all(|id| id == "r-1"));
}

#[tokio::test]
async fn a_collector_that_does_not_answer_costs_half_a_second_a_minute() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let world = World::new(|_| format!("http://{address}")).await;
    let began = tokio::time::Instant::now();
    for number in 0..10 {
        let id = format!("r-{number}");
        world.failed(&id, &json!({"order": 1}), FIRST).await;
        world.mapping.hand_over(&world.api).await;
    }
    // Each would cost half a second, or the ten of a request.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}");
}
