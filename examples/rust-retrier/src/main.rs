//! A Lambda function that charges for an order, and retries the call to the payment service itself as long as its own time allows.
//!
//! What still fails goes to the retry queue with the retrier's error: the code of the last failure, by which the retry handler's policy decides about the event.

use std::time::Duration;

use backstop_envelope::{RetryContext, UnwrapLayer};
use backstop_retry::{Budget, Deadline, Emf, Error, FullJitter, Retrier, success};
use lambda_runtime::{Diagnostic, LambdaEvent, Runtime, service_fn};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The part of the function's time that is left to report a failure.
const REPORTING: Duration = Duration::from_millis(500);

struct Payments {
    url: String,
    client: reqwest::Client,
    retrier: Retrier,
}

impl Payments {
    fn from_environment() -> Result<Self, lambda_runtime::Error> {
        let policy = FullJitter::default()
            .base(Duration::from_millis(200))
            .cap(Duration::from_secs(2));
        let retrier = Retrier::builder()
            .name("payments")
            .policy(policy)
            .attempt_timeout(Duration::from_secs(2))
            // The function's instances live for hours and share it across invocations.
            .budget(&Budget::aws_2_1())
            .observe(Emf::new("Shop", "charge"))
            .build()?;
        Ok(Self {
            url: std::env::var("PAYMENTS_URL")?,
            client: reqwest::Client::new(),
            retrier,
        })
    }

    async fn charge(&self, event: LambdaEvent<Box<RawValue>>) -> Result<Value, Diagnostic> {
        // The same at each attempt of the event, so that the service charges once.
        let id = RetryContext::current().unwrap_or_default().id;
        // As it came: a parsed number could lose digits, and an object its order.
        let order = event.payload.get().to_owned();
        let charge = async |_| {
            let request = self.client.post(&self.url).header("idempotency-key", &id);
            success(request.body(order.clone()).send().await?)
        };
        let deadline = Deadline::from(event.context.deadline()).earlier_by(REPORTING);
        match self
            .retrier
            .run(charge)
            .id(id.as_str())
            .deadline(deadline)
            .await
        {
            Ok(response) => Ok(json!({"status": response.status().as_u16()})),
            Err(error) => {
                let Error { code, message, .. } = error.into();
                Err(Diagnostic {
                    error_type: code,
                    error_message: message,
                })
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let payments = Payments::from_environment()?;
    let payments = &payments;
    Runtime::new(service_fn(async |event| payments.charge(event).await))
        .layer(UnwrapLayer)
        .run()
        .await
}
