//! Invokes a Lambda function for each message, synchronously and with the body as the payload.

use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use tokio::time::timeout;

use super::trace::Trace;
use super::{Handler, error_payload};
use backstop_aws::Endpoint;
use backstop_core::failure::Error;
use backstop_functions::invocation::{self, invocation_error, traced};
use backstop_queue::Message;

/// How long a dry run may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Invokes a function for each message.
#[derive(Debug)]
pub struct Lambda {
    client: Client,
    endpoint: Endpoint,
    function: String,
}

impl Lambda {
    /// A handler that invokes `function`, a name or an ARN, optionally with a version or an alias, in attempts of at most this duration.
    pub fn new(config: &SdkConfig, function: impl Into<String>, attempt_timeout: Duration) -> Self {
        // An attempt that ends before there is a connection looks like one that the function has seen. After that, only the attempt's timeout applies: a function may take 15 minutes.
        let connect = invocation::CONNECT.min(attempt_timeout / 2);
        let timeouts = TimeoutConfig::builder().connect_timeout(connect);
        let (client, endpoint) = invocation::client(config, timeouts.build());
        Self {
            client,
            endpoint,
            function: function.into(),
        }
    }
}

#[async_trait]
impl Handler for Lambda {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let request = self
            .client
            .invoke()
            .function_name(&self.function)
            .invocation_type(InvocationType::RequestResponse)
            .payload(payload(&message.body));
        let answer = traced(request, Trace::for_lambda(message))
            .send()
            .await
            .map_err(|error| invocation_error(&self.endpoint, &error))?;
        let Some(kind) = answer.function_error else {
            return Ok(());
        };
        let text = answer.payload.map(Blob::into_inner).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        Err(error_payload::error(&text).unwrap_or_else(|| Error::new(kind, text)))
    }

    /// A dry run: the function exists and the caller has permission to invoke it.
    async fn check(&self) -> Result<(), Error> {
        let dry_run = self
            .client
            .invoke()
            .function_name(&self.function)
            .invocation_type(InvocationType::DryRun);
        let checked = timeout(CHECK_TIMEOUT, dry_run.send()).await.map_err(|_| {
            let text = format!("no answer within {} s", CHECK_TIMEOUT.as_secs());
            Error::unavailable("ETIMEDOUT", text)
        })?;
        checked
            .map(|_| ())
            .map_err(|error| invocation_error(&self.endpoint, &error))
    }

    /// As the check: nothing else tells without an invocation.
    async fn is_reachable(&self) -> Result<(), Error> {
        self.check().await
    }
}

/// The body if it is JSON, the only format that Lambda accepts; otherwise the body as a JSON string.
fn payload(body: &str) -> Blob {
    match serde_json::from_str::<serde::de::IgnoredAny>(body) {
        Ok(_) => Blob::new(body),
        Err(_) => Blob::new(serde_json::Value::from(body).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The service accepts a connection and never responds. The clock is paused.
    #[tokio::test(start_paused = true)]
    async fn a_dry_run_without_a_response_ends_after_thirty_seconds() {
        use aws_sdk_lambda::config::{Credentials, Region};

        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let sdk = aws_config::defaults(aws_config::BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(Credentials::new("a", "b", None, None, "tests"))
            .endpoint_url(endpoint)
            .load()
            .await;
        let started = tokio::time::Instant::now();
        let error = Lambda::new(&sdk, "orders", Duration::from_secs(60))
            .check()
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "ETIMEDOUT: no answer within 30 s");
        assert!((CHECK_TIMEOUT..CHECK_TIMEOUT * 2).contains(&started.elapsed()));
    }

    #[test]
    fn a_body_that_is_not_json_is_passed_as_a_json_string() {
        for (body, expected) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("[1]", "[1]"),
            ("plain", r#""plain""#),
            ("", r#""""#),
        ] {
            assert_eq!(payload(body).as_ref(), expected.as_bytes());
        }
    }
}
