//! A function in Rust that charges each order once (examples/rust-idempotency), by the layer around its handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backstop_core::decision::ErrorClass;
use backstop_core::fallback::class_of;
use backstop_tests::aws::CREDENTIALS;
use backstop_tests::backstop::program;
use backstop_tests::emulator::ministack;
use backstop_tests::idempotency::Records;
use backstop_tests::runtime_api::RuntimeApi;
use backstop_tests::worker::Worker;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A process of the example.
fn function(table: &Records, api: &RuntimeApi, payments: &Worker) -> Child {
    Command::new(program("rust-idempotency"))
        .envs(CREDENTIALS)
        .env("AWS_ENDPOINT_URL", &table.endpoint)
        .env("AWS_LAMBDA_RUNTIME_API", &api.address)
        .env("AWS_LAMBDA_FUNCTION_NAME", "charge")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", "charge")
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "1")
        .env("PAYMENTS_URL", &payments.url)
        .env("IDEMPOTENCY_TABLE", &table.table)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn order(id: u32, total: f64) -> Value {
    json!({"order": id, "total": total})
}

/// What the retry handler's policy sees of an error: its `errorType`, without a status.
fn class(refused: &Value) -> ErrorClass {
    class_of(refused["errorType"].as_str().unwrap(), None)
}

#[tokio::test]
async fn an_order_is_charged_once_however_often_its_event_comes() {
    let table = Records::create(&ministack().endpoint).await;
    let is_up = Arc::new(AtomicBool::new(true));
    let service = Arc::clone(&is_up);
    let payments = Worker::answering(move |_| {
        if service.load(Ordering::SeqCst) {
            200
        } else {
            503
        }
    })
    .await;
    let api = RuntimeApi::start().await;
    let _function = function(&table, &api, &payments);
    // A retry of the same event, as the retry handler invokes it.
    let retried = |event: &Value| json!({"_retry_metadata": {"attempt": 2, "initial_timestamp": 1_767_225_600}, "_original_payload": event});
    let receipt = json!({"order": 7, "charged": 2.5});
    for event in [order(7, 2.5), order(7, 2.5), retried(&order(7, 2.5))] {
        let answer = api.invoke(event.to_string()).await;
        assert_eq!(answer.unwrap(), receipt);
    }
    assert_eq!(payments.attempts().len(), 1);

    // Another total for the same order is a mistake of the sender's.
    let refused = api.invoke(order(7, 9.5).to_string()).await.unwrap_err();
    assert_eq!(
        refused["errorType"], "IdempotencyPayloadMismatch",
        "{refused}"
    );
    assert_eq!(class(&refused), ErrorClass::Permanent);

    // What failed is tried again: by the retrier within the claim, and by the next attempt of the event.
    is_up.store(false, Ordering::SeqCst);
    let failed = api.invoke(order(8, 1.0).to_string()).await.unwrap_err();
    assert_eq!(failed["errorType"], "HTTP 503", "{failed}");
    assert_eq!(payments.attempts().len(), 4);
    is_up.store(true, Ordering::SeqCst);
    let answer = api.invoke(retried(&order(8, 1.0)).to_string()).await;
    assert_eq!(answer.unwrap(), json!({"order": 8, "charged": 1.0}));

    let nothing = api.invoke(json!({"total": 1.0}).to_string()).await;
    let refused = nothing.unwrap_err();
    assert_eq!(refused["errorType"], "InvalidEvent");
    assert_eq!(class(&refused), ErrorClass::Permanent);
    assert_eq!(table.count().await["COMPLETED"], 2);

    // Longer than an event can come again: two weeks in the retry queue, and the longest delay.
    table.pass(29 * DAY).await;
    let answer = api.invoke(order(7, 2.5).to_string()).await;
    assert_eq!(answer.unwrap(), receipt);
    table.pass(2 * DAY).await;
    assert!(table.count().await.is_empty());
}

#[tokio::test]
async fn an_order_whose_function_was_killed_is_never_charged_again() {
    let table = Records::create(&ministack().endpoint).await;
    // The payment service has the order, and the function will never hear of it.
    let killed: Arc<OnceLock<Pid>> = Arc::default();
    let victim = Arc::clone(&killed);
    let payments = Worker::answering(move |_| {
        kill_process(*victim.get().unwrap(), Signal::KILL).unwrap();
        200
    })
    .await;
    let api = RuntimeApi::start().await;
    let mut process = function(&table, &api, &payments);
    let pid = i32::try_from(process.id().unwrap()).unwrap();
    killed.set(Pid::from_raw(pid).unwrap()).unwrap();
    tokio::select! {
        answer = api.invoke(order(7, 2.5).to_string()) => panic!("{answer:?}"),
        status = process.wait() => assert!(!status.unwrap().success()),
    }
    assert_eq!(table.count().await["INPROGRESS"], 1);

    // At once it may still be in progress; days, months and years later, nobody knows whether the order was charged.
    let api = RuntimeApi::start().await;
    let _function = function(&table, &api, &payments);
    let refused = api.invoke(order(7, 2.5).to_string()).await.unwrap_err();
    assert_eq!(refused["errorType"], "InProgress", "{refused}");
    assert_eq!(class(&refused), ErrorClass::Transient);
    for days in [1, 13, 30, 365, 3_650] {
        table.pass(days * DAY).await;
        let refused = api.invoke(order(7, 2.5).to_string()).await.unwrap_err();
        assert_eq!(refused["errorType"], "IdempotencyOutcomeUnknown");
        assert_eq!(class(&refused), ErrorClass::Permanent);
    }
    assert_eq!(payments.attempts().len(), 1);
}
