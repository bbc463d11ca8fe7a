//! What an environment reaches over HTTP: SQS and Lambda, with the SDK's own client, and with every fault of the plan.

use std::io;
use std::sync::Arc;
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
use aws_smithy_types::body::SdkBody;
use backstop_queue::{Attribute, EntryError};
use backstop_queue::{LocalQueue, Outgoing, Queue, ReceiptHandle, VisibilityTimeout};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::history::Event;
use super::plan::Kind;
use super::planted::Planted;
use super::world::{Environment, FUNCTION, World, marks};

/// How long a request may be on its way, or its answer, in milliseconds.
const LATE: u64 = 30_000;

/// The prefix of the queues' ARNs.
pub(crate) const ACCOUNT: &str = "arn:aws:sqs:us-east-1:000000000000";

/// The way from one environment to SQS and Lambda.
#[derive(Debug, Clone)]
pub(crate) struct Aws {
    pub(crate) world: Arc<World>,
    pub(crate) environment: Arc<Environment>,
}

/// A status, a code for errors, and a body.
struct Answer(u16, Option<&'static str>, Value);

fn refusal(status: u16, code: &'static str) -> Answer {
    Answer(
        status,
        Some(code),
        json!({"__type": code, "message": "as planned"}),
    )
}

/// A request, as far as the services read it.
struct Request {
    /// The operation of SQS.
    operation: Option<String>,
    path: String,
    body: Value,
}

impl Request {
    fn is_invocation(&self) -> bool {
        self.path.contains("/invocations")
    }
}

impl Aws {
    pub(crate) fn sdk(self) -> SdkConfig {
        let connector = SharedHttpConnector::new(self);
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

    fn strikes(&self, kind: Kind, ratio: (u32, u32), what: &'static str) -> bool {
        let strikes = self.world.strikes(kind, ratio);
        if strikes {
            self.world.faulty(None, what);
        }
        strikes
    }

    /// The life of one request.
    async fn carry(&self, request: &Request) -> Result<Answer, &'static str> {
        let world = &self.world;
        let late = self.strikes(Kind::LateAnswers, (1, 3), "late");
        let is_there = late && world.chance((1, 2));
        let way = world.milliseconds(1, if late && !is_there { LATE } else { 30 });
        sleep(way).await;
        if self.strikes(Kind::Throttled, (1, 2), "throttled") {
            let is_sqs = request.operation.is_some();
            return Ok(if is_sqs {
                refusal(400, "RequestThrottled")
            } else {
                refusal(429, "TooManyRequestsException")
            });
        }
        if self.strikes(Kind::Refused, (1, 2), "refused") {
            return Ok(refusal(503, "ServiceUnavailable"));
        }
        if request.is_invocation() && self.strikes(Kind::Denied, (1, 1), "denied") {
            return Ok(refusal(403, "AccessDeniedException"));
        }
        let answer = match &request.operation {
            Some(operation) => self.sqs(operation, &request.body).await,
            None => self.lambda(request),
        };
        if self.strikes(Kind::Broken, (1, 2), "broken") {
            return Ok(refusal(500, "ServiceException"));
        }
        if self.strikes(Kind::LostAnswers, (1, 3), "lost answer") {
            sleep(world.milliseconds(1, 12_000)).await;
            return Err("connection reset");
        }
        sleep(world.milliseconds(1, if is_there { LATE } else { 20 })).await;
        Ok(answer)
    }

    fn lambda(&self, request: &Request) -> Answer {
        let world = &self.world;
        if request.path.contains("/event-source-mappings") {
            if !world.plan.knows_mapping {
                return refusal(403, "AccessDeniedException");
            }
            let handler = "arn:aws:lambda:us-east-1:000000000000:function:retry-handler";
            let mapping = json!({"FunctionArn": handler, "State": "Enabled", "FunctionResponseTypes": ["ReportBatchItemFailures"]});
            return Answer(200, None, json!({"EventSourceMappings": [mapping]}));
        }
        if request.path.contains("/recursion-config") {
            return Answer(200, None, json!({"RecursiveLoop": "Allow"}));
        }
        let name = request.path.replace("%3A", ":").replace("%24", "$");
        assert!(name.contains(FUNCTION), "{name} is invoked");
        let (number, after) = marks(&request.body.to_string());
        if !world.is(Planted::NeverInvokes) {
            let event = if world.is(Planted::ForgetsAttempts) {
                request.body["_original_payload"].clone()
            } else {
                request.body.clone()
            };
            world.accept(number, Some(after), event.clone());
            if world.is(Planted::InvokesTwice) {
                world.accept(number, Some(after), event);
            }
        }
        Answer(202, None, Value::Null)
    }

    fn queue(&self, url: &str) -> &Arc<LocalQueue> {
        let is_dead = url.ends_with("/dead");
        if is_dead {
            &self.world.dead
        } else {
            &self.world.retries
        }
    }

    async fn sqs(&self, operation: &str, body: &Value) -> Answer {
        let url = body["QueueUrl"].as_str().unwrap_or_default();
        let ok = |body| Answer(200, None, body);
        match operation {
            "GetQueueUrl" => {
                let name = body["QueueName"].as_str().unwrap();
                ok(json!({"QueueUrl": format!("http://aws/000000000000/{name}")}))
            }
            "GetQueueAttributes" => ok(json!({"Attributes": self.attributes(url)})),
            _ => {
                let mut results = json!({"Successful": [], "Failed": []});
                for entry in body["Entries"].as_array().unwrap() {
                    let (list, result) = self.entry(operation, url, entry).await;
                    results[list].as_array_mut().unwrap().push(result);
                }
                ok(results)
            }
        }
    }

    fn attributes(&self, url: &str) -> Value {
        let name = url.rsplit('/').next().unwrap();
        let mut attributes = json!({
            "QueueArn": format!("{ACCOUNT}:{name}"),
            "VisibilityTimeout": self.world.plan.visibility.to_string(),
            "MessageRetentionPeriod": "1209600",
            "MaximumMessageSize": "1048576",
            "DelaySeconds": "0",
            "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesNotVisible": "0",
            "ApproximateNumberOfMessagesDelayed": "0",
        });
        if name == "retries" {
            let redrive =
                format!(r#"{{"deadLetterTargetArn":"{ACCOUNT}:dead","maxReceiveCount":1000}}"#);
            attributes["RedrivePolicy"] = redrive.into();
        }
        attributes
    }

    /// Carries out an entry of a batch. Returns in which list of the answer it is, and as what.
    async fn entry(&self, operation: &str, url: &str, entry: &Value) -> (&'static str, Value) {
        let world = &self.world;
        let handle = entry["ReceiptHandle"].as_str();
        let handle = handle.map(|it| ReceiptHandle(it.into()));
        let of = match &handle {
            Some(handle) => world.of_handle(handle),
            None => marks(entry["MessageBody"].as_str().unwrap()),
        };
        if world.strikes(Kind::PartialFailures, (1, 3)) {
            world.faulty(Some(of), "entry failed");
            let error = json!({"Id": entry["Id"], "SenderFault": false, "Code": "InternalError", "Message": "try again"});
            return ("Failed", error);
        }
        let done = match (operation, &handle) {
            ("DeleteMessageBatch", Some(handle)) => self.delete(handle, false).await,
            ("ChangeMessageVisibilityBatch", Some(handle)) => {
                let seconds = entry["VisibilityTimeout"].as_u64().unwrap();
                self.hide(handle, u32::try_from(seconds).unwrap()).await
            }
            ("SendMessageBatch", None) => self.send(url, entry).await,
            _ => panic!("{operation} {entry}"),
        };
        match done {
            Ok(()) => (
                "Successful",
                json!({"Id": entry["Id"], "MessageId": uuid::Uuid::new_v4().to_string(), "MD5OfMessageBody": ""}),
            ),
            Err(error) => (
                "Failed",
                json!({"Id": entry["Id"], "SenderFault": true, "Code": error.code, "Message": error.message}),
            ),
        }
    }

    /// Deletes a message, also for the mapping.
    pub(crate) async fn delete(
        &self,
        handle: &ReceiptHandle,
        by_mapping: bool,
    ) -> Result<(), EntryError> {
        let (world, of) = (&self.world, self.world.of_handle(handle));
        let before = world.retries.len();
        let deleted = world.retries.delete(std::slice::from_ref(handle)).await;
        let deleted = deleted.unwrap().remove(0);
        // An old handle changes nothing.
        if world.retries.len() < before {
            world.happened(Event::Deleted { of, by_mapping });
        }
        deleted
    }

    async fn hide(&self, handle: &ReceiptHandle, seconds: u32) -> Result<(), EntryError> {
        let (world, of) = (&self.world, self.world.of_handle(handle));
        if world.is(Planted::DeletesWhatWaits) {
            return self.delete(handle, false).await;
        }
        let seconds = if world.is(Planted::WaitsForADay) {
            43_000
        } else {
            seconds
        };
        let change = [(handle.clone(), VisibilityTimeout::from_seconds(seconds))];
        let hidden = world.retries.change_visibility(&change).await;
        let hidden = hidden.unwrap().remove(0);
        if hidden.is_ok() {
            world.happened(Event::Hidden { of, seconds });
        }
        hidden
    }

    async fn send(&self, url: &str, entry: &Value) -> Result<(), EntryError> {
        let (world, queue) = (&self.world, self.queue(url));
        let body = entry["MessageBody"].as_str().unwrap();
        let of = marks(body);
        let mut message = Outgoing::new(body);
        let delay = entry["DelaySeconds"].as_u64();
        message.delay = delay.map(Duration::from_secs);
        if let Some(attributes) = entry["MessageAttributes"].as_object() {
            for (name, value) in attributes {
                let text = value["StringValue"].as_str().unwrap_or_default();
                message
                    .attributes
                    .insert(name.clone(), Attribute::string(text));
            }
        }
        let reason = message.attributes.get("BackstopReason");
        let reason = reason.map(Attribute::to_text);
        let is_letter = Arc::ptr_eq(queue, &world.dead);
        if is_letter && world.is(Planted::LosesLetters) {
            return Ok(());
        }
        let times = 1 + usize::from(is_letter && world.is(Planted::SendsLettersTwice));
        for _ in 0..times {
            let sent = queue.send(std::slice::from_ref(&message)).await;
            sent.unwrap().remove(0)?;
            world.happened(if is_letter {
                let reason = reason.clone();
                Event::Letter { of, reason }
            } else {
                Event::Copied { of }
            });
        }
        Ok(())
    }
}

impl HttpConnector for Aws {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target");
        let target = target.and_then(|it| it.rsplit('.').next());
        let body = request.body().bytes().unwrap_or_default();
        let request = Request {
            operation: target.map(str::to_owned),
            path: request.uri().to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        };
        let aws = self.clone();
        HttpConnectorFuture::new(async move {
            aws.environment.lives().await;
            aws.world.requested();
            let (answer, answered) = oneshot::channel();
            let way = aws.clone();
            // It goes on without the environment that has sent it.
            tokio::spawn(async move {
                let _ = answer.send(way.carry(&request).await);
            });
            let answer = answered.await.unwrap_or(Err("the simulation ends"));
            aws.environment.lives().await;
            let Answer(status, code, body) =
                answer.map_err(|why| ConnectorError::io(Box::new(io::Error::other(why))))?;
            let body = if body.is_null() {
                String::new()
            } else {
                body.to_string()
            };
            let status = status.try_into().unwrap();
            let mut response = HttpResponse::new(status, SdkBody::from(body));
            if let Some(code) = code {
                response.headers_mut().insert("x-amzn-errortype", code);
                let query = format!("{code};Sender");
                response.headers_mut().insert("x-amzn-query-error", query);
            }
            Ok(response)
        })
    }
}
