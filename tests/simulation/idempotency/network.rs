//! How a host reaches the table: the SDK's own client, whose requests go to the model, with every fault of the plan.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::history::Event;
use super::plan::Kind;
use super::table::Refusal;
use super::world::World;

tokio::task_local! {
    /// The call that makes a request.
    pub(crate) static CALL: u32;
}

/// How long a request may be on its way, or its answer, in milliseconds.
const LATE: u64 = 30_000;

/// When a connection is given up that nobody answers on.
const NO_ANSWER: Duration = Duration::from_secs(60);

/// The way from one host to the table.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) world: Arc<World>,
    pub(crate) host: usize,
}

/// The SDK's client, with the model in the place of the network.
pub(crate) fn client(connector: impl HttpConnector + 'static) -> Client {
    let connector = SharedHttpConnector::new(connector);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url("http://dynamodb")
        .allow_no_auth()
        .sleep_impl(TokioSleep::new())
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .build();
    Client::from_conf(config)
}

type Answer = Result<Result<Value, Refusal>, &'static str>;

impl Network {
    fn strikes(&self, call: u32, kind: Kind, ratio: (u32, u32), what: &'static str) -> bool {
        let strikes = self.world.strikes(kind, ratio);
        if strikes {
            self.world.happened(Event::Faulty { call, what });
        }
        strikes
    }

    /// The life of one request. It goes on without the host that has sent it.
    async fn carry(&self, call: u32, operation: &str, body: &Value) -> Answer {
        let world = &self.world;
        let host = self.host;
        let strikes = |kind, ratio, what| self.strikes(call, kind, ratio, what);
        if strikes(Kind::CutOff { host }, (4, 5), "cut off") {
            let hangs = world.chance((1, 3));
            sleep(if hangs {
                NO_ANSWER
            } else {
                world.milliseconds(1, 50)
            })
            .await;
            return Err("connection refused");
        }
        let late = strikes(Kind::LateRequests, (1, 3), "late request");
        sleep(world.milliseconds(1, if late { LATE } else { 20 })).await;
        for (kind, status, code) in [
            (
                Kind::Throttled,
                400,
                "ProvisionedThroughputExceededException",
            ),
            (Kind::Conflicts, 400, "TransactionConflictException"),
        ] {
            if strikes(kind, (1, 2), code) {
                return Ok(Err(Refusal::new(status, code, "try again")));
            }
        }
        let broken = strikes(Kind::Broken, (1, 2), "broken");
        let error = Refusal::new(500, "InternalServerError", "try again");
        if broken && world.chance((1, 2)) {
            return Ok(Err(error));
        }
        let answer = world.request(call, host, operation, body);
        if strikes(Kind::Repeated, (1, 2), "repeated") {
            let (world, operation, body) = (Arc::clone(world), operation.to_owned(), body.clone());
            tokio::spawn(async move {
                sleep(world.milliseconds(1, LATE)).await;
                let _ = world.request(call, host, &operation, &body);
            });
        }
        if broken {
            return Ok(Err(error));
        }
        if strikes(Kind::LostAnswers, (1, 3), "lost answer") {
            sleep(world.milliseconds(1, 8_000)).await;
            return Err("connection reset");
        }
        let late = strikes(Kind::LateAnswers, (1, 3), "late answer");
        sleep(world.milliseconds(1, if late { LATE } else { 20 })).await;
        Ok(answer)
    }
}

impl HttpConnector for Network {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let call = CALL.get();
        self.world.happened(Event::Requested { call });
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap();
        let network = self.clone();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            // Nobody may wait for it any more.
            let _ = answer.send(network.carry(call, &operation, &body).await);
        });
        HttpConnectorFuture::new(async move {
            let answer = answered.await.unwrap_or(Err("the simulation ends"));
            let answer =
                answer.map_err(|why| ConnectorError::io(Box::new(io::Error::other(why))))?;
            let (status, body) = match answer {
                Ok(body) => (200, body),
                Err(refusal) => (refusal.status, refusal.body()),
            };
            let status = status.try_into().unwrap();
            Ok(HttpResponse::new(status, SdkBody::from(body.to_string())))
        })
    }
}
