//! An asynchronous Lambda function that charges for an order, retried by Backstop's retry handler.
//!
//! The layer takes the envelope off: the handler sees the same order at each attempt. The id is the same too, so that the payment service can tell a second attempt from a second order.

use std::time::UNIX_EPOCH;

use backstop_envelope::{RetryContext, UnwrapLayer};
use lambda_runtime::{Diagnostic, Error, LambdaEvent, Runtime, service_fn};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
struct Order {
    order: u64,
    /// From which attempt on the payment service answers.
    #[serde(default)]
    answers_from: u32,
}

#[derive(Debug, Serialize)]
struct Receipt {
    order: u64,
    attempt: u32,
    /// When the first attempt failed, in seconds since 1970.
    first_seen: Option<u64>,
    idempotency_key: String,
}

async fn charge(event: LambdaEvent<Order>) -> Result<Receipt, Diagnostic> {
    let retry = RetryContext::current().unwrap_or_default();
    if retry.attempt.get() < event.payload.answers_from {
        // The type is what a policy classifies by: not the name of a Rust type, which is the default.
        return Err(Diagnostic {
            error_type: "PaymentServiceAway".to_owned(),
            error_message: format!("no answer at attempt {}", retry.attempt),
        });
    }
    Ok(Receipt {
        order: event.payload.order,
        attempt: retry.attempt.get(),
        first_seen: retry
            .first_seen
            .and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())),
        idempotency_key: retry.id,
    })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    Runtime::new(service_fn(charge))
        .layer(UnwrapLayer)
        .run()
        .await
}
