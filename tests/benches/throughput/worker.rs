//! The worker behind HTTP: it takes every message, and tells how many there were and how long ago the first one came.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use backstop_core::clock;
use tokio::net::TcpListener;

#[derive(Debug, Default)]
struct Seen {
    first: OnceLock<Instant>,
    messages: AtomicUsize,
}

/// Prints where it listens, and answers until its standard input is closed.
pub(crate) async fn run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/", post(work))
        .route("/seen", get(seen))
        .with_state(Arc::<Seen>::default());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let closed = || std::io::stdin().read_line(&mut String::new());
    let _ = tokio::task::spawn_blocking(closed).await;
}

async fn work(State(seen): State<Arc<Seen>>) -> StatusCode {
    seen.first.get_or_init(clock::instant);
    seen.messages.fetch_add(1, Ordering::Relaxed);
    StatusCode::OK
}

async fn seen(State(seen): State<Arc<Seen>>) -> String {
    let since = seen.first.get().map(Instant::elapsed).unwrap_or_default();
    let messages = seen.messages.load(Ordering::Relaxed);
    format!("{messages} {}", since.as_secs_f64())
}
