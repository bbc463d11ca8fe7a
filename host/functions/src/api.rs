//! The requests to Lambda: invoke a function again, and look up its mapping and its recursion detection.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::operation::RequestId;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{FunctionResponseType, InvocationType, RecursiveLoop};
use backstop_aws::Endpoint;
use backstop_core::failure::Error;
use backstop_core::text::chain;

use crate::invocation::{self, invocation_error, traced};
use crate::name::unqualified;

/// The timeout of one request. An asynchronous invocation is only queued.
const REQUEST: Duration = Duration::from_secs(10);

/// The operations of Lambda that the handler needs.
#[async_trait]
pub trait Functions: Debug + Send + Sync {
    /// Queues an invocation of `function`, an ARN with its version or alias. `Ok` means that Lambda has accepted the event (202).
    async fn invoke(&self, function: &str, event: String) -> Result<(), Error>;

    /// Whether the event source mapping of a queue to the function `handler` has `ReportBatchItemFailures`; `None` if there is no such mapping. Where there are several, for versions and aliases, all must have it.
    async fn reports_failures(&self, handler: &str, queue: &str) -> Result<Option<bool>, Error>;

    /// Whether Lambda's recursion detection is on for a function. It terminates a chain after about 16 invocations.
    async fn detects_recursion(&self, function: &str) -> Result<bool, Error>;
}

/// Lambda through the AWS SDK.
#[derive(Debug, Clone)]
pub struct LambdaApi {
    client: Client,
    endpoint: Endpoint,
}

impl LambdaApi {
    /// With the SDK's usual configuration, without retries of its own.
    pub fn new(config: &SdkConfig) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(invocation::CONNECT)
            .operation_attempt_timeout(REQUEST)
            .build();
        let (client, endpoint) = invocation::client(config, timeouts);
        Self { client, endpoint }
    }

    /// Checks that `function` exists and may be invoked, without invoking it.
    pub async fn check(&self, function: &str) -> Result<(), Error> {
        let request = self.client.invoke().function_name(function);
        let request = request.invocation_type(InvocationType::DryRun);
        let answer = request.send().await;
        answer
            .map(drop)
            .map_err(|error| invocation_error(&self.endpoint, &error))
    }

    /// Queues an invocation of `function`. Returns the request id, which records of its failures have too.
    pub async fn queue_event(
        &self,
        function: &str,
        event: String,
    ) -> Result<Option<String>, Error> {
        let request = self
            .client
            .invoke()
            .function_name(function)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(event));
        let answer = traced(request, trace_header())
            .send()
            .await
            .map_err(|error| invocation_error(&self.endpoint, &error))?;
        match answer.status_code() {
            202 => Ok(answer.request_id().map(str::to_owned)),
            status => Err(Error::new(
                "UnexpectedStatus",
                format!("Lambda answered {status} and not 202"),
            )
            .status(u16::try_from(status).ok())),
        }
    }
}

#[async_trait]
impl Functions for LambdaApi {
    async fn invoke(&self, function: &str, event: String) -> Result<(), Error> {
        self.queue_event(function, event).await.map(drop)
    }

    async fn reports_failures(&self, handler: &str, queue: &str) -> Result<Option<bool>, Error> {
        let answer = self.client.list_event_source_mappings();
        let answer = answer.event_source_arn(queue).send().await;
        let answer = answer.map_err(|error| {
            let text = match self.endpoint.no_response(&error) {
                Some(unanswered) => unanswered.text,
                None => chain(&error),
            };
            Error::new("ListEventSourceMappings", text)
        })?;
        let own = answer.event_source_mappings().iter().filter(|mapping| {
            let function = mapping.function_arn().unwrap_or_default();
            let feeds_nothing = matches!(mapping.state(), Some("Disabled" | "Deleting"));
            function_name(function) == function_name(handler) && !feeds_nothing
        });
        let mut all = own.map(|mapping| {
            mapping
                .function_response_types()
                .contains(&FunctionResponseType::ReportBatchItemFailures)
        });
        Ok(all.next().map(|first| first && all.all(|it| it)))
    }

    async fn detects_recursion(&self, function: &str) -> Result<bool, Error> {
        let answer = self
            .client
            .get_function_recursion_config()
            .function_name(unqualified(function))
            .send()
            .await
            .map_err(|error| {
                let text = match self.endpoint.no_response(&error) {
                    Some(unanswered) => unanswered.text,
                    None => chain(&error),
                };
                Error::new("GetFunctionRecursionConfig", text)
            })?;
        Ok(answer.recursive_loop() != Some(&RecursiveLoop::Allow))
    }
}

/// X-Ray's header for an invocation in a span, with what Lambda has given to this process to count the invocations of a chain. Without a span, the SDK passes on what Lambda has given.
fn trace_header() -> Option<String> {
    let span = backstop_traces::current()?.context;
    let own = std::env::var("_X_AMZN_TRACE_ID").ok();
    Some(span.xray(own.as_deref()))
}

/// The name of a function without account, version and alias.
fn function_name(function: &str) -> &str {
    let name = unqualified(function);
    name.rsplit(':').next().unwrap_or(name)
}
