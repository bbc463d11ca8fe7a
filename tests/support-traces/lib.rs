//! An OpenTelemetry collector for the tests: it takes spans over OTLP, by HTTP and by gRPC at the same port, and keeps them.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1 as proto;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The attributes of a span or of its resource.
pub type Attributes = BTreeMap<String, String>;

/// A span as it has arrived. Ids are hexadecimal.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// `producer`, `client`, `consumer`, `internal` or `server`.
    pub kind: &'static str,
    /// The trace that it is in.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The id of its parent; empty if it begins its trace.
    pub parent: String,
    /// The spans that it has links to, as trace and id.
    pub links: Vec<(String, String)>,
    /// Its attributes, as texts.
    pub attributes: Attributes,
    /// Whether it failed.
    pub is_error: bool,
    /// Since 1970, in nanoseconds.
    pub start: u64,
    /// Since 1970, in nanoseconds.
    pub end: u64,
    /// The attributes of its resource, as texts.
    pub resource: Attributes,
}

impl Span {
    /// Where it is, as a link has it.
    pub fn place(&self) -> (String, String) {
        (self.trace.clone(), self.id.clone())
    }

    /// One of its attributes; empty if it does not have it.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Whether it is a part of another span.
    pub fn is_in(&self, other: &Self) -> bool {
        (&self.trace, &self.parent) == (&other.trace, &other.id)
    }
}

/// What a collector has got.
#[derive(Debug, Default)]
struct Received {
    spans: Mutex<Vec<Span>>,
    /// The content types of the requests.
    types: Mutex<Vec<String>>,
}

/// A collector that runs until it is dropped.
#[derive(Debug)]
pub struct Collector {
    url: String,
    received: Arc<Received>,
    server: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Collector {
    /// Starts one at a free port of this machine.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<Received>::default();
        let app = Router::new()
            .route("/v1/traces", post(by_http))
            .route(
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                post(by_grpc),
            )
            .with_state(Arc::clone(&received));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            received,
            server,
        }
    }

    /// Its URL, for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The variables with which a program sends its spans here soon.
    pub fn variables(&self) -> [(&'static str, &str); 3] {
        [
            ("OTEL_TRACES_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ]
    }

    /// The spans so far, by their start.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = self.received.spans.lock().unwrap().clone();
        spans.sort_by_key(|span| span.start);
        spans
    }

    /// The spans with this name so far.
    pub fn named(&self, name: &str) -> Vec<Span> {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        spans
    }

    /// The content types of the requests so far.
    pub fn types(&self) -> Vec<String> {
        self.received.types.lock().unwrap().clone()
    }

    /// Waits until there are so many spans with this name, and returns them.
    pub async fn wait_for(&self, name: &str, count: usize) -> Vec<Span> {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let found = self.named(name);
            if found.len() >= count {
                return found;
            }
            let names: Vec<_> = self.spans().into_iter().map(|span| span.name).collect();
            assert!(Instant::now() < end, "no {count} of {name}: {names:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn by_http(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    received.take(&headers, &body);
    StatusCode::OK
}

/// A message of gRPC has five bytes before it; the status comes after the body.
async fn by_grpc(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    received.take(&headers, &body[5..]);
    let trailers = HeaderMap::from_iter([(
        "grpc-status".parse().unwrap(),
        HeaderValue::from_static("0"),
    )]);
    let empty = Full::new(Bytes::from_static(&[0; 5]));
    let body = empty.with_trailers(async { Some(Ok(trailers)) });
    Response::builder()
        .header("content-type", "application/grpc")
        .body(Body::new(body))
        .unwrap()
}

impl Received {
    fn take(&self, headers: &HeaderMap, body: &[u8]) {
        let kind = headers["content-type"].to_str().unwrap().to_owned();
        self.types.lock().unwrap().push(kind);
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let mut spans = self.spans.lock().unwrap();
        for group in request.resource_spans {
            let resource = group.resource.map(|it| texts(it.attributes));
            let resource = resource.unwrap_or_default();
            let all = group.scope_spans.into_iter().flat_map(|it| it.spans);
            spans.extend(all.map(|it| span(it, &resource)));
        }
    }
}

fn span(span: proto::Span, resource: &Attributes) -> Span {
    use proto::span::SpanKind;
    let links = span.links.into_iter();
    Span {
        kind: match span.kind {
            kind if kind == SpanKind::Producer as i32 => "producer",
            kind if kind == SpanKind::Consumer as i32 => "consumer",
            kind if kind == SpanKind::Client as i32 => "client",
            kind if kind == SpanKind::Server as i32 => "server",
            _ => "internal",
        },
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        links: links
            .map(|link| (hex(&link.trace_id), hex(&link.span_id)))
            .collect(),
        attributes: texts(span.attributes),
        is_error: span.status.is_some_and(|status| status.code == 2),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        resource: resource.clone(),
    }
}

fn texts(attributes: Vec<KeyValue>) -> Attributes {
    let text = |value: Option<AnyValue>| match value.and_then(|it| it.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = attributes.into_iter();
    attributes.map(|it| (it.key, text(it.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
