//! Functions in Python and Node.js that charge each order once (examples/python-idempotency, examples/node-idempotency), with the real Powertools, behind the retry handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use axum::body::Body;
use axum::http::Response;
use backstop_tests::aws::{CREDENTIALS, Queues};
use backstop_tests::documents::document;
use backstop_tests::emulator::ministack;
use backstop_tests::idempotency::Records;
use backstop_tests::lambda::{Function, invoke, map, send_failures, unmap};
use backstop_tests::runtimes::node_modules;
use backstop_tests::worker::Worker;
use backstop_tests::{eventually, python};
use serde_json::{Value, json};

const ORDER: &str = "o-1";

/// A service that answers its first requests with these statuses, and the others with a receipt.
async fn service(statuses: &'static [u16]) -> Worker {
    let asked = Arc::new(AtomicUsize::new(0));
    Worker::start(move |_| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        let status = statuses.get(number).copied().unwrap_or(200);
        let body = Body::from(json!({"payment": "p-1"}).to_string());
        Response::builder().status(status).body(body).unwrap()
    })
    .await
}

/// The function's first attempt charges the order and fails afterwards; its event comes again in an envelope.
async fn charges_once(name: &str, function: Function) {
    let endpoint = &ministack().endpoint;
    let records = Records::create(endpoint).await;
    let payments = service(&[]).await;
    // For all attempts of one call.
    let receipts = service(&[503, 503, 503]).await;
    let queues = Queues::standard(endpoint, &[(Q::VisibilityTimeout, "60")]).await;
    queues.redrive_after(1_000).await;
    let arn = queues.arn().await;
    let mut function = function
        .with("AWS_ENDPOINT_URL", endpoint)
        .with("IDEMPOTENCY_TABLE", &records.table)
        .with("PAYMENTS_URL", &payments.url)
        .with("RECEIPTS_URL", &receipts.url)
        .with("no_proxy", "127.0.0.1")
        .with("POWERTOOLS_SERVICE_NAME", name);
    for (name, value) in CREDENTIALS {
        function = function.with(name, value);
    }
    function.make(endpoint, name).await;
    send_failures(endpoint, name, &arn).await;
    let order = json!({"id": ORDER, "cents": 1250});
    invoke(endpoint, name, &order).await;

    eventually("the event is in the retry queue", || async {
        queues.held().await == 1
    })
    .await;
    assert_eq!(payments.attempts().len(), 1);
    assert_eq!(receipts.attempts().len(), 3);
    assert_eq!(records.count().await["COMPLETED"], 1);
    let (body, _) = queues.take_left().await.pop_first().unwrap();
    let mut record: Value = serde_json::from_str(&body).unwrap();
    // AWS has it in the record, this emulator does not.
    record["requestContext"]["requestId"] = "c9b7a3d0-0000-4000-8000-000000000001".into();
    queues.send([record.to_string()]).await;
    let retries = format!("retries-{name}");
    Function::retry_handler()
        .with("AWS_ENDPOINT_URL", endpoint)
        .with("BACKSTOP_RETRY_QUEUE_URL", &queues.url)
        .with("BACKSTOP_POLICY", "linear")
        .with("BACKSTOP_SETTINGS", "base=1s")
        .make(endpoint, &retries)
        .await;
    let mapping = map(endpoint, &retries, &arn).await;
    eventually("the receipt is sent", || async {
        receipts.attempts().len() == 4 && queues.held().await == 0
    })
    .await;
    unmap(endpoint, &mapping).await;

    // The payment of the first attempt, which Powertools has kept.
    assert_eq!(payments.attempts().len(), 1);
    let sent = serde_json::from_str::<Value>(&payments.attempts()[0].body).unwrap();
    assert_eq!(sent, order);
    for receipt in receipts.attempts() {
        let body: Value = serde_json::from_str(&receipt.body).unwrap();
        assert_eq!(body, json!({"payment": "p-1"}));
        assert_eq!(receipt.headers["idempotency-key"], ORDER);
    }
    assert_eq!(queues.dead().await, 0);
}

#[tokio::test]
async fn the_python_function_charges_an_order_once_however_often_its_event_comes() {
    let package = python::package();
    let handler = document("examples/python-idempotency/handler.py");
    let function = Function::of_python(&handler, Some(package.path()));
    charges_once("charge-python", function).await;
}

#[tokio::test]
async fn the_node_function_charges_an_order_once_however_often_its_event_comes() {
    let modules = node_modules(&["@aws-lambda-powertools", "@aws-sdk"]);
    let handler = document("examples/node-idempotency/handler.mjs");
    let function = Function::of_node(&handler, Some(modules.path()));
    charges_once("charge-node", function).await;
}
