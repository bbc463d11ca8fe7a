//! A server that accepts batches of SQS and DynamoDB as fast as it can, and fails some entries at their first attempt.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

#[derive(Default)]
struct Seen {
    failing: u64,
    /// The entries that have failed once.
    failed: HashSet<String>,
    requests: u64,
    delivered: u64,
}

type Shared = Arc<Mutex<Seen>>;

/// Prints where it listens, and serves until its standard input is closed. `failing` of a hundred entries fail once.
pub(crate) async fn run(failing: &str) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let seen = Seen {
        failing: failing.parse().unwrap(),
        ..Seen::default()
    };
    let router = Router::new()
        .route("/counts", get(counts))
        .fallback(post(answer))
        .with_state(Arc::new(Mutex::new(seen)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let closed = || std::io::stdin().read_line(&mut String::new());
    let _ = tokio::task::spawn_blocking(closed).await;
}

/// The requests and the delivered entries so far, which start again from 0.
async fn counts(State(shared): State<Shared>) -> String {
    let mut seen = shared.lock().unwrap();
    let counts = format!("{} {}", seen.requests, seen.delivered);
    (seen.requests, seen.delivered) = (0, 0);
    seen.failed.clear();
    counts
}

async fn answer(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let target = headers["x-amz-target"].to_str().unwrap();
    let request: Value = serde_json::from_slice(&body).unwrap();
    let answer = match target.rsplit('.').next().unwrap() {
        "SendMessageBatch" => shared.lock().unwrap().send(&request),
        "BatchWriteItem" => shared.lock().unwrap().write(&request),
        "GetQueueAttributes" => json!({"Attributes": {"MaximumMessageSize": "1048576"}}),
        "DescribeTable" => {
            json!({"Table": {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}})
        }
        operation => panic!("{operation}"),
    };
    Response::builder()
        .header("content-type", "application/x-amz-json-1.0")
        .body(Body::from(answer.to_string()))
        .unwrap()
}

impl Seen {
    fn send(&mut self, request: &Value) -> Value {
        self.requests += 1;
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for entry in request["Entries"].as_array().unwrap() {
            let body = entry["MessageBody"].as_str().unwrap();
            if self.fails(body) {
                failed.push(
                    json!({"Id": entry["Id"], "Code": "InternalError", "SenderFault": false}),
                );
            } else {
                self.delivered += 1;
                successful
                    .push(json!({"Id": entry["Id"], "MessageId": body, "MD5OfMessageBody": ""}));
            }
        }
        json!({"Successful": successful, "Failed": failed})
    }

    fn write(&mut self, request: &Value) -> Value {
        self.requests += 1;
        let tables = request["RequestItems"].as_object().unwrap().values();
        self.delivered += tables
            .map(|it| it.as_array().unwrap().len() as u64)
            .sum::<u64>();
        json!({"UnprocessedItems": {}})
    }

    fn fails(&mut self, body: &str) -> bool {
        let number: u64 = body.split(' ').next().unwrap().parse().unwrap();
        // Scattered, so that each batch has about one.
        let chosen = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        chosen % 100 < self.failing && self.failed.insert(body.to_owned())
    }
}
