//! Models of SQS, of a table of DynamoDB and of a Firehose stream, behind the SDK's own clients, with every fault of the plan.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_smithy_async::rt::sleep::{SharedAsyncSleep, TokioSleep};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::base64;
use aws_smithy_types::body::SdkBody;
use backstop_core::lock::lock;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::plan::{Kind, Plan, To};
use super::planted::Planted;

/// How long a request may be on its way, or its answer, in milliseconds.
const LATE: u64 = 60_000;

/// What the service has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The entries that it has, in their order, with when they came.
    pub(crate) stored: Vec<(Duration, u32)>,
    /// The entries of each request.
    pub(crate) requests: Vec<(Duration, Vec<u32>)>,
    pub(crate) most_in_flight: usize,
    /// Whether a request went wrong.
    pub(crate) faults: usize,
    /// How many requests were late on their way: others may have overtaken them.
    pub(crate) late: usize,
}

#[derive(Debug)]
struct State {
    random: ChaCha8Rng,
    seen: Seen,
    in_flight: usize,
    /// When a deduplication id was last accepted.
    deduplicated: BTreeMap<String, Duration>,
}

#[derive(Debug, Clone)]
pub(crate) struct Service {
    plan: Arc<Plan>,
    planted: Option<Planted>,
    started: Instant,
    state: Arc<Mutex<State>>,
}

/// The number in an entry's text.
pub(crate) fn number_of(text: &str) -> u32 {
    text.rsplit('-').next().unwrap().parse().unwrap()
}

struct Answer(u16, Option<&'static str>, Value);

fn refusal(status: u16, code: &'static str) -> Answer {
    let body = json!({"__type": code, "message": "as planned"});
    Answer(status, Some(code), body)
}

impl Service {
    pub(crate) fn new(plan: &Plan, planted: Option<Planted>) -> Self {
        let state = State {
            random: ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(1)),
            seen: Seen::default(),
            in_flight: 0,
            deduplicated: BTreeMap::new(),
        };
        Self {
            plan: Arc::new(plan.clone()),
            planted,
            started: Instant::now(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.state).seen.clone()
    }

    pub(crate) fn sdk(&self) -> SdkConfig {
        let connector = SharedHttpConnector::new(self.clone());
        let credentials = Credentials::new("simulation", "simulation", None, None, "simulation");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url("http://aws")
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn milliseconds(&self, to: u64) -> Duration {
        Duration::from_millis(lock(&self.state).random.random_range(1..to))
    }

    fn strikes(&self, kind: Kind, ratio: (u32, u32)) -> bool {
        let now = self.now();
        let mut all = self.plan.disturbances.iter();
        let is_under_way =
            all.any(|it| it.kind == kind && it.from <= now && now < it.from + it.lasts);
        let mut state = lock(&self.state);
        let strikes = is_under_way && state.random.random_ratio(ratio.0, ratio.1);
        state.seen.faults += usize::from(strikes);
        state.seen.late += usize::from(strikes && kind == Kind::LateRequests);
        strikes
    }

    fn is_refused(&self, number: u32) -> bool {
        let mut all = self.plan.entries.iter();
        all.any(|it| it.number == number && it.refused)
    }

    fn store(&self, number: u32) {
        if self.planted == Some(Planted::LosesEntries) && number % 5 == 3 {
            return;
        }
        let now = self.now();
        lock(&self.state).seen.stored.push((now, number));
    }

    /// The life of one request.
    async fn carry(&self, operation: &str, body: &Value) -> Result<Answer, &'static str> {
        let late = self.strikes(Kind::LateRequests, (1, 3));
        sleep(self.milliseconds(if late { LATE } else { 30 })).await;
        if self.strikes(Kind::Throttled, (1, 2)) {
            return Ok(refusal(400, "ThrottlingException"));
        }
        let broken = self.strikes(Kind::Broken, (1, 2));
        let is_carried_out = !broken || lock(&self.state).random.random_bool(0.5);
        let answer = if is_carried_out {
            self.answer(operation, body)
        } else {
            refusal(500, "InternalServerError")
        };
        if broken {
            return Ok(refusal(500, "InternalServerError"));
        }
        if self.strikes(Kind::LostAnswers, (1, 3)) {
            sleep(self.milliseconds(8_000)).await;
            return Err("connection reset");
        }
        let late = self.strikes(Kind::LateAnswers, (1, 3));
        sleep(self.milliseconds(if late { LATE } else { 20 })).await;
        Ok(answer)
    }

    fn answer(&self, operation: &str, body: &Value) -> Answer {
        match operation {
            "SendMessageBatch" => self.send(body["Entries"].as_array().unwrap()),
            "BatchWriteItem" => self.write(body["RequestItems"]["table"].as_array().unwrap()),
            "PutRecordBatch" => self.put(body["Records"].as_array().unwrap()),
            other => panic!("unknown operation {other}"),
        }
    }

    fn send(&self, entries: &[Value]) -> Answer {
        let mut results = json!({"Successful": [], "Failed": []});
        for entry in entries {
            let number = number_of(entry["MessageBody"].as_str().unwrap());
            let id = &entry["Id"];
            let (list, result) = if self.is_refused(number) {
                (
                    "Failed",
                    json!({"Id": id, "SenderFault": true, "Code": "InvalidMessageContents", "Message": ""}),
                )
            } else if self.strikes(Kind::PartialFailures, (1, 3)) {
                (
                    "Failed",
                    json!({"Id": id, "SenderFault": false, "Code": "InternalError", "Message": ""}),
                )
            } else {
                self.accept(number, entry["MessageDeduplicationId"].as_str());
                (
                    "Successful",
                    json!({"Id": id, "MessageId": format!("message-{number}"), "MD5OfMessageBody": ""}),
                )
            };
            if !self.strikes(Kind::LeftOut, (1, 4)) {
                results[list].as_array_mut().unwrap().push(result);
            }
        }
        Answer(200, None, results)
    }

    /// A queue that has a message with this deduplication id already accepts it without effect, for five minutes.
    fn accept(&self, number: u32, deduplication: Option<&str>) {
        let now = self.now();
        if let Some(id) = deduplication {
            let mut state = lock(&self.state);
            let before = state.deduplicated.get(id).copied();
            if before.is_some_and(|it| now < it + Duration::from_secs(300)) {
                return;
            }
            state.deduplicated.insert(id.to_owned(), now);
        }
        self.store(number);
    }

    fn write(&self, entries: &[Value]) -> Answer {
        let number =
            |entry: &Value| number_of(entry["PutRequest"]["Item"]["value"]["S"].as_str().unwrap());
        if entries.iter().any(|entry| self.is_refused(number(entry))) {
            return refusal(400, "ValidationException");
        }
        let mut unprocessed = Vec::new();
        for entry in entries {
            if self.strikes(Kind::PartialFailures, (1, 3)) {
                unprocessed.push(entry.clone());
            } else {
                self.store(number(entry));
            }
        }
        let unprocessed = if unprocessed.is_empty() {
            json!({})
        } else {
            json!({"table": unprocessed})
        };
        Answer(200, None, json!({"UnprocessedItems": unprocessed}))
    }

    fn put(&self, entries: &[Value]) -> Answer {
        let number = |entry: &Value| {
            let bytes = base64::decode(entry["Data"].as_str().unwrap()).unwrap();
            number_of(std::str::from_utf8(&bytes).unwrap())
        };
        if entries.iter().any(|entry| self.is_refused(number(entry))) {
            return refusal(400, "InvalidArgumentException");
        }
        let mut failed = 0;
        let records = entries.iter().map(|entry| {
            if self.strikes(Kind::PartialFailures, (1, 3)) {
                failed += 1;
                return json!({"ErrorCode": "ServiceUnavailableException", "ErrorMessage": ""});
            }
            self.store(number(entry));
            json!({"RecordId": format!("record-{}", number(entry))})
        });
        let results: Vec<_> = records.collect();
        Answer(
            200,
            None,
            json!({"FailedPutCount": failed, "RequestResponses": results}),
        )
    }

    /// What a target reads when it is opened.
    fn described(&self, operation: &str) -> Option<Answer> {
        let body = match operation {
            "GetQueueAttributes" => {
                let fifo = (self.plan.to == To::Fifo).then_some("true");
                let mut attributes =
                    json!({"QueueArn": "arn:aws:sqs:us-east-1:000000000000:queue"});
                if let Some(fifo) = fifo {
                    attributes["FifoQueue"] = fifo.into();
                    attributes["QueueArn"] = "arn:aws:sqs:us-east-1:000000000000:queue.fifo".into();
                }
                json!({"Attributes": attributes})
            }
            "DescribeTable" => {
                let key = json!([{"AttributeName": "id", "KeyType": "HASH"}]);
                json!({"Table": {"TableName": "table", "TableArn": "table", "KeySchema": key}})
            }
            "DescribeDeliveryStream" => json!({"DeliveryStreamDescription": {
                "DeliveryStreamName": "stream", "DeliveryStreamARN": "stream", "DeliveryStreamStatus": "ACTIVE",
                "DeliveryStreamType": "DirectPut", "VersionId": "1", "Destinations": [], "HasMoreDestinations": false,
            }}),
            _ => return None,
        };
        Some(Answer(200, None, body))
    }

    /// The entries of a request.
    fn numbers(body: &Value) -> Vec<u32> {
        let texts = |entries: &Value, text: &dyn Fn(&Value) -> String| {
            let entries = entries.as_array().cloned().unwrap_or_default();
            entries
                .iter()
                .map(|it| number_of(&text(it)))
                .collect::<Vec<_>>()
        };
        let mut all = texts(&body["Entries"], &|it| {
            it["MessageBody"].as_str().unwrap().to_owned()
        });
        all.extend(texts(&body["RequestItems"]["table"], &|it| {
            it["PutRequest"]["Item"]["value"]["S"]
                .as_str()
                .unwrap()
                .to_owned()
        }));
        all.extend(texts(&body["Records"], &|it| {
            let bytes = base64::decode(it["Data"].as_str().unwrap()).unwrap();
            String::from_utf8(bytes).unwrap()
        }));
        all
    }
}

/// A request that somebody waits for.
struct Waiting(Service);

impl Waiting {
    fn begin(service: &Service) -> Self {
        let mut state = lock(&service.state);
        state.in_flight += 1;
        state.seen.most_in_flight = state.seen.most_in_flight.max(state.in_flight);
        Self(service.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.0.state).in_flight -= 1;
    }
}

impl HttpConnector for Service {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap();
        let service = self.clone();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let answered = match service.described(&operation) {
                Some(described) => Ok(described),
                None => {
                    let request = (service.now(), Self::numbers(&body));
                    lock(&service.state).seen.requests.push(request);
                    if service.planted == Some(Planted::SendsTwice) {
                        let _ = service.answer(&operation, &body);
                    }
                    service.carry(&operation, &body).await
                }
            };
            let _ = answer.send(answered);
        });
        let waiting = Waiting::begin(self);
        HttpConnectorFuture::new(async move {
            let _waiting = waiting;
            let answer = answered.await.unwrap_or(Err("the simulation ends"));
            let Answer(status, code, body) =
                answer.map_err(|why| ConnectorError::io(Box::new(io::Error::other(why))))?;
            let status = status.try_into().unwrap();
            let mut response = HttpResponse::new(status, SdkBody::from(body.to_string()));
            if let Some(code) = code {
                let query = format!("{code};Sender");
                response.headers_mut().insert("x-amzn-query-error", query);
            }
            Ok(response)
        })
    }
}
