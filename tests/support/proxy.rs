//! A proxy in front of an emulator that does what no emulator can: throttle, fail, fail in part, cut connections, respond slowly.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri};
use backstop_core::clock;
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::refusal::Refusal;

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it goes through.
    None,
    /// `RequestThrottled`; not carried out.
    Throttled,
    /// `AccessDeniedException`; not carried out.
    Denied,
    /// `OverLimit`, as SQS answers a receive while 120,000 messages are in flight; not carried out.
    OverLimit,
    /// HTTP 500; not carried out.
    ServerError,
    /// HTTP 500 after it was carried out.
    LateServerError,
    /// The connection is cut in the middle of the answer, after it was carried out.
    Cut,
    /// Carried out, and answered a second late.
    Slow,
    /// Half of a batch is not carried out and reported as failed, the receiver's fault; for DynamoDB, as unprocessed.
    FailedInPart,
    /// Half of a batch is not carried out and reported as throttled, the sender's fault.
    ThrottledInPart,
    /// Carried out, but half of a batch is in neither list of the response.
    Unanswered,
    /// Carried out, and answered with the entries in reverse order.
    Reversed,
    /// Carried out, and answered by a service whose clock is ahead of this machine's by so many seconds.
    Shifted(i64),
    /// Never answered, and not carried out.
    Hanging,
    /// The connection is closed without an answer; not carried out.
    Closed,
    /// An error that the service answers with; not carried out.
    Refused(Refusal),
    /// A batch is not carried out, and answered as if it were.
    Pretended,
}

/// The faults that a batch can have.
pub const ALL: [Fault; 8] = [
    Fault::Throttled,
    Fault::ServerError,
    Fault::LateServerError,
    Fault::Cut,
    Fault::Slow,
    Fault::FailedInPart,
    Fault::ThrottledInPart,
    Fault::Unanswered,
];

type Plan = dyn Fn(&str, u64) -> Fault + Send + Sync;

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub endpoint: String,
    requests: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Shared {
    upstream: String,
    client: reqwest::Client,
    plan: Arc<Plan>,
    requests: Arc<AtomicU64>,
}

impl Proxy {
    /// A proxy that calls `plan` with the operation's name and the number of the request.
    pub async fn start(
        upstream: &str,
        plan: impl Fn(&str, u64) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let shared = Shared {
            upstream: upstream.to_owned(),
            client: reqwest::Client::new(),
            plan: Arc::new(plan),
            requests: Arc::clone(&requests),
        };
        let router = Router::new().fallback(forward).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { endpoint, requests }
    }

    /// How many requests it has seen.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn forward(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    let target = headers
        .get("x-amz-target")
        .and_then(|target| target.to_str().ok())
        .unwrap_or_default();
    // SQS names the operation in a header, Lambda by the path.
    let operation = match target.rsplit('.').next().unwrap_or_default() {
        "" if uri.path().ends_with("/invocations") => "Invoke".to_owned(),
        "" => format!("{method} {}", uri.path()),
        operation => operation.to_owned(),
    };
    let is_json = !target.is_empty() || operation == "Invoke";
    let to = Upstream {
        url: format!("{}{uri}", shared.upstream),
        method,
        client: shared.client.clone(),
    };
    match (shared.plan)(&operation, number) {
        Fault::Throttled => error(400, "RequestThrottled"),
        Fault::Denied => error(403, "AccessDeniedException"),
        Fault::OverLimit => error(403, "OverLimit"),
        Fault::Hanging => std::future::pending().await,
        // Without a message of a panic: it only ends the task of the connection.
        Fault::Closed => std::panic::resume_unwind(Box::new("closed")),
        Fault::Refused(refusal) => refusal.response(is_json),
        Fault::ServerError => error(500, "InternalFailure"),
        Fault::Pretended => pretend(&body),
        Fault::None => to.carry_out(&headers, body).await,
        Fault::Slow => {
            let answer = to.carry_out(&headers, body).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            answer
        }
        Fault::LateServerError => {
            to.carry_out(&headers, body).await;
            error(500, "InternalFailure")
        }
        Fault::Cut => {
            to.carry_out(&headers, body).await;
            let cut = stream::iter([
                Ok(Bytes::from_static(b"{\"Succ")),
                Err(std::io::Error::other("cut")),
            ]);
            Response::builder()
                .header("content-length", "1000")
                .body(Body::from_stream(cut))
                .unwrap()
        }
        Fault::FailedInPart => {
            to.carry_out_half(&headers, &body, Some(("InternalError", false)))
                .await
        }
        Fault::ThrottledInPart => {
            to.carry_out_half(&headers, &body, Some(("RequestThrottled", true)))
                .await
        }
        Fault::Unanswered => to.carry_out_half(&headers, &body, None).await,
        Fault::Reversed => to.carry_out_reversed(&headers, body).await,
        Fault::Shifted(seconds) => to.carry_out_shifted(&headers, body, seconds).await,
    }
}

/// The target of one request.
struct Upstream {
    url: String,
    method: Method,
    client: reqwest::Client,
}

impl Upstream {
    async fn carry_out(&self, headers: &HeaderMap, body: Bytes) -> Response<Body> {
        let mut headers = headers.clone();
        headers.remove("host");
        headers.remove("content-length");
        match self
            .client
            .request(self.method.clone(), &self.url)
            .headers(headers)
            .body(body)
            .send()
            .await
        {
            Ok(answer) => {
                let mut response = Response::builder().status(answer.status());
                for (name, value) in answer.headers().iter().filter(|(name, _)| {
                    // The checksum of DynamoDB's answer is wrong for a rewritten one.
                    name.as_str().starts_with("x-amz") && *name != "x-amz-crc32"
                        || ["content-type", "etag"].contains(&name.as_str())
                }) {
                    response = response.header(name, value);
                }
                match answer.bytes().await {
                    Ok(bytes) => response.body(Body::from(bytes)).unwrap(),
                    Err(_) => error(502, "BadGateway"),
                }
            }
            Err(_) => error(502, "BadGateway"),
        }
    }

    /// Every other entry is left out of the request and reported with this code; or, without one, carried out and left out of the answer.
    async fn carry_out_half(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        failed: Option<(&str, bool)>,
    ) -> Response<Body> {
        let mut request: Value = serde_json::from_slice(body).unwrap_or_default();
        if request.get("RequestItems").is_some() && failed.is_some() {
            return self.carry_out_half_of_writes(headers, request).await;
        }
        if request.get("Records").is_some() && failed.is_some() {
            return self.carry_out_half_of_records(headers, request).await;
        }
        let Some(entries) = request.get("Entries").and_then(Value::as_array).cloned() else {
            return self.carry_out(headers, body.clone()).await;
        };
        let victims: BTreeSet<String> = entries.iter().skip(1).step_by(2).map(id).collect();
        let is_victim = |entry: &Value| victims.contains(&id(entry));
        if failed.is_some() {
            request["Entries"] = entries
                .iter()
                .filter(|entry| !is_victim(entry))
                .cloned()
                .collect();
        }
        let answer = self.carry_out(headers, request.to_string().into()).await;
        let (parts, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX)
            .await
            .unwrap_or_default();
        let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        for list in ["Successful", "Failed"] {
            let kept = answer
                .get(list)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            answer[list] = kept.into_iter().filter(|entry| !is_victim(entry)).collect();
        }
        if let (Some((code, sender_fault)), Some(list)) = (failed, answer["Failed"].as_array_mut())
        {
            list.extend(victims.iter().map(|id| json!({"Id": id, "Code": code, "SenderFault": sender_fault, "Message": "by the proxy"})));
        }
        Response::from_parts(parts, Body::from(answer.to_string()))
    }
}

impl Upstream {
    /// Every other write of DynamoDB is left out of the request and reported as unprocessed.
    async fn carry_out_half_of_writes(
        &self,
        headers: &HeaderMap,
        mut request: Value,
    ) -> Response<Body> {
        let mut unprocessed = serde_json::Map::new();
        for (table, writes) in request["RequestItems"].as_object_mut().unwrap() {
            let all = writes.as_array().cloned().unwrap_or_default();
            let (done, left): (Vec<_>, Vec<_>) =
                all.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
            let strip = |pairs: Vec<(usize, Value)>| -> Vec<Value> {
                pairs.into_iter().map(|(_, write)| write).collect()
            };
            *writes = strip(done).into();
            let left = strip(left);
            if !left.is_empty() {
                unprocessed.insert(table.clone(), left.into());
            }
        }
        let answer = self.carry_out(headers, request.to_string().into()).await;
        rewrite(answer, |answer| {
            answer["UnprocessedItems"] = unprocessed.into();
        })
        .await
    }

    /// Every other record of Firehose is left out of the request and reported as failed, in its place.
    async fn carry_out_half_of_records(
        &self,
        headers: &HeaderMap,
        mut request: Value,
    ) -> Response<Body> {
        let all = request["Records"].as_array().cloned().unwrap_or_default();
        let count = all.len();
        request["Records"] = all.into_iter().step_by(2).collect();
        let answer = self.carry_out(headers, request.to_string().into()).await;
        rewrite(answer, |answer| {
            let done = answer["RequestResponses"].as_array().cloned();
            let mut done = done.unwrap_or_default().into_iter();
            let failed =
                json!({"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "by the proxy"});
            let result = |at: usize| match at % 2 {
                0 => done.next().unwrap_or_default(),
                _ => failed.clone(),
            };
            answer["FailedPutCount"] = (count / 2).into();
            answer["RequestResponses"] = (0..count).map(result).collect();
        })
        .await
    }

    /// The times of the answer and of its messages are later, or earlier.
    async fn carry_out_shifted(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        seconds: i64,
    ) -> Response<Body> {
        let answer = self.carry_out(headers, body).await;
        let mut answer = rewrite(answer, |answer| {
            let messages = answer.get_mut("Messages").and_then(Value::as_array_mut);
            for message in messages.into_iter().flatten() {
                for name in ["SentTimestamp", "ApproximateFirstReceiveTimestamp"] {
                    if let Some(time) = message["Attributes"].get_mut(name) {
                        let ms: i64 = time.as_str().unwrap().parse().unwrap();
                        *time = (ms + seconds * 1_000).to_string().into();
                    }
                }
            }
        })
        .await;
        let now = clock::system();
        let shifted = match u64::try_from(seconds) {
            Ok(ahead) => now + Duration::from_secs(ahead),
            Err(_) => now - Duration::from_secs(seconds.unsigned_abs()),
        };
        let date = httpdate::fmt_http_date(shifted).parse().unwrap();
        answer.headers_mut().insert("date", date);
        answer
    }

    async fn carry_out_reversed(&self, headers: &HeaderMap, body: Bytes) -> Response<Body> {
        let answer = self.carry_out(headers, body).await;
        rewrite(answer, |answer| {
            for list in ["Successful", "Failed"] {
                if let Some(entries) = answer.get_mut(list).and_then(Value::as_array_mut) {
                    entries.reverse();
                }
            }
        })
        .await
    }
}

/// The answer with its JSON changed.
async fn rewrite(answer: Response<Body>, change: impl FnOnce(&mut Value)) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await;
    let mut answer: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    change(&mut answer);
    Response::from_parts(parts, Body::from(answer.to_string()))
}

/// What a service answers that has carried out a batch.
fn pretend(body: &Bytes) -> Response<Body> {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let entries = request["Entries"].as_array().cloned().unwrap_or_default();
    let done =
        |entry: &Value| json!({"Id": id(entry), "MessageId": "none", "MD5OfMessageBody": ""});
    let done: Vec<_> = entries.iter().map(done).collect();
    Response::new(Body::from(json!({"Successful": done}).to_string()))
}

fn id(entry: &Value) -> String {
    entry["Id"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn error(status: u16, code: &str) -> Response<Body> {
    let body = json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": "by the proxy"});
    Response::builder()
        .status(status)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amzn-query-error", format!("{code};Receiver"))
        .body(Body::from(body.to_string()))
        .unwrap()
}
