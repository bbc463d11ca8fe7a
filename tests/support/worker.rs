//! An HTTP worker for the consumer: responds as the test defines, and records the requests.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use axum::routing::post;
use backstop_core::clock;
use tokio::net::TcpListener;

/// One request that the worker got.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The message's body.
    pub body: String,
    /// `X-Aws-Sqsd-Receive-Count`.
    pub receive_count: u32,
    /// All headers.
    pub headers: HeaderMap,
    /// When it arrived.
    pub at: Instant,
}

type Seen = Arc<Mutex<Vec<Attempt>>>;
type Answer = dyn Fn(&Attempt) -> Response<Body> + Send + Sync;

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    /// The URL to post to.
    pub url: String,
    attempts: Seen,
}

/// An empty response with this status.
pub fn status(code: u16) -> Response<Body> {
    Response::builder()
        .status(code)
        .body(Body::empty())
        .unwrap()
}

/// This many bodies of a kind: see [`Worker::by_name`].
pub fn numbered(name: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{name}-{number}"))
        .collect()
}

impl Worker {
    /// A worker for messages named after their outcome: `fine`, `flaky` (fails twice), `wrong` (400), `broken` (always 503).
    pub async fn by_name() -> Self {
        Self::answering(|attempt| match attempt.body.split('-').next().unwrap() {
            "flaky" if attempt.receive_count <= 2 => 503,
            "wrong" => 400,
            "broken" => 503,
            _ => 200,
        })
        .await
    }

    /// A worker that answers each attempt with this status.
    pub async fn answering(code: impl Fn(&Attempt) -> u16 + Send + Sync + 'static) -> Self {
        Self::start(move |attempt| status(code(attempt))).await
    }

    /// The same at this port, which is free.
    pub async fn at(port: u16, code: impl Fn(&Attempt) -> u16 + Send + Sync + 'static) -> Self {
        Self::listening(port, move |attempt| status(code(attempt))).await
    }

    /// A worker that responds with `answer`.
    pub async fn start(
        answer: impl Fn(&Attempt) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        Self::listening(0, answer).await
    }

    async fn listening(
        port: u16,
        answer: impl Fn(&Attempt) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Answer> = Arc::new(answer);
        let router = Router::new()
            .route("/", post(handle))
            .with_state((Arc::clone(&attempts), answer));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, attempts }
    }

    /// Every attempt so far, in order.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().unwrap().clone()
    }

    /// How often a body was attempted.
    pub fn attempts_of(&self, body: &str) -> usize {
        self.attempts
            .lock()
            .unwrap()
            .iter()
            .filter(|attempt| attempt.body == body)
            .count()
    }
}

async fn handle(
    State((attempts, answer)): State<(Seen, Arc<Answer>)>,
    headers: HeaderMap,
    body: String,
) -> Response<Body> {
    let receive_count = headers
        .get("x-aws-sqsd-receive-count")
        .and_then(|count| count.to_str().ok()?.parse().ok())
        .unwrap_or(0);
    let attempt = Attempt {
        body,
        receive_count,
        headers,
        at: clock::instant(),
    };
    attempts.lock().unwrap().push(attempt.clone());
    answer(&attempt)
}
