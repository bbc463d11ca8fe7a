//! A Lambda function that charges each order once, however often its event comes.
//!
//! The layer claims the order in a table, and stores the receipt. A second event for the same order gets the receipt of the first. The call of the payment service is retried within the claim; if all of its attempts fail, the claim is released, and the retry handler tries the event again later. If the function dies in between, the order may have been charged: its event becomes a dead letter, and the claim stays until somebody has looked.

use std::time::Duration;

use aws_config::BehaviorVersion;
use backstop_envelope::{OnceLayer, UnwrapLayer};
use backstop_idempotency::{DynamoStore, Idempotency, OnUnknown};
use backstop_retry::{Error, FullJitter, Retrier, success};
use lambda_runtime::{Diagnostic, LambdaEvent, Runtime, service_fn};
use serde::{Deserialize, Serialize};
use tower::Layer;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    order: u64,
    total: f64,
}

/// Stored in the table for the repeats.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    order: u64,
    charged: f64,
}

async fn charge(
    retrier: &Retrier,
    payments: &str,
    event: LambdaEvent<Order>,
) -> Result<Receipt, Diagnostic> {
    let Order { order, total } = event.payload;
    let client = reqwest::Client::new();
    let call = async |_| success(client.post(payments).body(order.to_string()).send().await?);
    match retrier.run(call).deadline(Duration::from_secs(5)).await {
        Ok(_) => Ok(Receipt {
            order,
            charged: total,
        }),
        Err(error) => {
            let Error { code, message, .. } = error.into();
            Err(Diagnostic {
                error_type: code,
                error_message: message,
            })
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let sdk = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let client = aws_sdk_dynamodb::Client::new(&sdk);
    let table = std::env::var("IDEMPOTENCY_TABLE")?;
    let idempotency = Idempotency::builder(DynamoStore::new(client, table), "charge")
        .key("/order")
        .validate("/total")
        // Longer than an event can come again: 14 days in the retry queue, and the longest delay.
        .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
        // Rather a dead letter than a second charge. A charge that may have been made never expires.
        .on_unknown(OnUnknown::DeadLetter)
        .build()?;
    let policy = FullJitter::default().base(Duration::from_millis(100));
    let retrier = Retrier::builder()
        .name("payments")
        .policy(policy.max_attempts(3))
        .build()?;
    let payments = std::env::var("PAYMENTS_URL")?;
    let handler = service_fn(move |event| {
        let (retrier, payments) = (retrier.clone(), payments.clone());
        async move { charge(&retrier, &payments, event).await }
    });
    let handler = OnceLayer::new(idempotency).layer(handler);
    Runtime::new(handler).layer(UnwrapLayer).run().await
}
