//! A fast worker, as a process: it answers what messages ask for, and writes a line for each attempt before it answers.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body as Answer;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response};
use axum::routing::post;
use backstop_core::clock;
use clap::Parser;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::messages::{Body, Do, answer};

#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[arg(long)]
    port: u16,

    /// The file that gets a line for each attempt
    #[arg(long)]
    lines: PathBuf,

    /// Writes that the work is done, answers so, and does none of every hundredth message
    #[arg(long)]
    forgets: bool,
}

/// A line of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    /// In milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) n: u32,
    /// The message's id, as the host names it.
    pub(crate) id: String,
    /// The host, as the path of the request names it.
    pub(crate) host: String,
    /// The receive count, as the host names it.
    pub(crate) count: u32,
    /// What is about to be answered. Without it, the attempt has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The same for both lines of an attempt, and for those of no other one of this process.
    pub(crate) attempt: u64,
}

struct Worker {
    lines: File,
    forgets: bool,
    next: std::sync::atomic::AtomicU64,
}

impl Worker {
    fn write(&self, line: &Line) {
        let text = serde_json::to_string(line).unwrap() + "\n";
        // In one piece: the file is open for appending.
        (&self.lines).write_all(text.as_bytes()).unwrap();
    }
}

pub(crate) async fn run(args: Args) -> ExitCode {
    let open = File::options().append(true).create(true).open(&args.lines);
    let worker = Arc::new(Worker {
        lines: open.unwrap(),
        forgets: args.forgets,
        next: std::sync::atomic::AtomicU64::new(clock::now().0 * 1_000_000),
    });
    let router = Router::new()
        .route("/{host}", post(handle))
        .with_state(worker);
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await.unwrap();
    axum::serve(listener, router).await.unwrap();
    ExitCode::SUCCESS
}

async fn handle(
    State(worker): State<Arc<Worker>>,
    Path(host): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response<Answer> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let body: Body = serde_json::from_str(&body).unwrap();
    let count = header("x-aws-sqsd-receive-count").parse().unwrap_or(0);
    let line = Line {
        at: clock::now().0,
        n: body.n,
        id: header("x-aws-sqsd-msgid"),
        host,
        count,
        status: None,
        attempt: worker
            .next
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed),
    };
    let is_forgotten = worker.forgets && body.n % 100 == 7;
    if is_forgotten {
        return Response::new(Answer::empty());
    }
    worker.write(&line);
    if body.what != Do::Hang || count <= 1 {
        sleep(Duration::from_millis(body.ms)).await;
    }
    let (status, after, text) = answer(&body, count);
    worker.write(&Line {
        at: clock::now().0,
        status: Some(status),
        ..line
    });
    let mut response = Response::builder().status(status);
    if let Some(after) = after {
        response = response.header("retry-after", after);
    }
    response.body(Answer::from(text)).unwrap()
}
