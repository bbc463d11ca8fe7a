//! Lambda's Runtime API for one process: sends it one event after the other and takes the responses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use backstop_core::clock;
use bytes::Bytes;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::time::timeout;

/// The function ARN of every invocation.
const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:retries";

/// The trace of every invocation, with what counts the invocations of a chain.
pub const TRACE: &str =
    "Root=1-6759e988-bd862e3fe1be46a994272793;Parent=63995c3f42cd8ad8;Sampled=0;Lineage=a:7|b:2";

/// How long an invocation may take unless a test sets another time, and how long a test waits.
const TIME: Duration = Duration::from_secs(60);

/// What a handler made of an event: its response, or the error that it reported.
pub type Answer = Result<Value, Value>;

/// A running Runtime API.
#[derive(Debug)]
pub struct RuntimeApi {
    /// Host and port, for `AWS_LAMBDA_RUNTIME_API`.
    pub address: String,
    events: mpsc::UnboundedSender<Given>,
    asked: watch::Receiver<Option<Instant>>,
}

#[derive(Debug)]
struct Given {
    event: String,
    answered: oneshot::Sender<Answer>,
}

struct Shared {
    events: AsyncMutex<mpsc::UnboundedReceiver<Given>>,
    asked: watch::Sender<Option<Instant>>,
    handed_over: AtomicU64,
    under_way: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    /// How long an invocation may take.
    time: Duration,
}

impl RuntimeApi {
    /// Starts it, before the process requests its first event.
    pub async fn start() -> Self {
        Self::with_time(TIME).await
    }

    /// Starts it for a function with this timeout.
    pub async fn with_time(time: Duration) -> Self {
        let (events, waiting) = mpsc::unbounded_channel();
        let (asking, asked) = watch::channel(None);
        let shared = Arc::new(Shared {
            events: AsyncMutex::new(waiting),
            asked: asking,
            handed_over: AtomicU64::default(),
            under_way: Mutex::default(),
            time,
        });
        let invocation = "/2018-06-01/runtime/invocation";
        let router = Router::new()
            .route(&format!("{invocation}/next"), get(next))
            .route(&format!("{invocation}/{{id}}/response"), post(response))
            .route(&format!("{invocation}/{{id}}/error"), post(error))
            .with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            events,
            asked,
        }
    }

    /// Waits until the process requests its first event; the time of the request.
    pub async fn first_asked(&self) -> Instant {
        let mut asked = self.asked.clone();
        let first = timeout(TIME, asked.wait_for(Option::is_some)).await;
        first.expect("asks for an event").unwrap().unwrap()
    }

    /// Sends an event and waits for its outcome.
    pub async fn invoke(&self, event: String) -> Answer {
        let (answered, answer) = oneshot::channel();
        self.events.send(Given { event, answered }).unwrap();
        timeout(TIME, answer).await.expect("answers").unwrap()
    }
}

async fn next(State(shared): State<Arc<Shared>>) -> Response<Body> {
    shared.asked.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert_with(clock::instant);
        is_first
    });
    let given = shared.events.lock().await.recv().await;
    let Some(Given { event, answered }) = given else {
        return empty(StatusCode::GONE);
    };
    let number = shared.handed_over.fetch_add(1, Ordering::Relaxed);
    let id = format!("00000000-0000-4000-8000-{number:012}");
    let mut under_way = shared.under_way.lock().unwrap();
    under_way.insert(id.clone(), answered);
    drop(under_way);
    Response::builder()
        .header("content-type", "application/json")
        .header(
            "Lambda-Runtime-Deadline-Ms",
            clock::now().plus(shared.time).0.to_string(),
        )
        .header("Lambda-Runtime-Aws-Request-Id", id)
        .header("Lambda-Runtime-Invoked-Function-Arn", ARN)
        .header("Lambda-Runtime-Trace-Id", TRACE)
        .body(Body::from(event))
        .unwrap()
}

async fn response(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    shared.ended(&id, Ok(serde_json::from_slice(&body).unwrap()))
}

async fn error(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response<Body> {
    shared.ended(&id, Err(serde_json::from_slice(&body).unwrap_or_default()))
}

impl Shared {
    fn ended(&self, id: &str, answer: Answer) -> Response<Body> {
        match self.under_way.lock().unwrap().remove(id) {
            Some(answered) => {
                let _ = answered.send(answer);
                empty(StatusCode::ACCEPTED)
            }
            None => empty(StatusCode::BAD_REQUEST),
        }
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    Response::builder()
        .status(status)
        .body(Body::empty())
        .unwrap()
}
