//! Shared by the tests of the Lambda retry handler: records as Lambda writes them, and events as a mapping delivers them.

use std::collections::BTreeMap;

use backstop_core::failure::Timestamp;
use backstop_host::lambda::{Batch, BatchMessage};
use backstop_queue::{Attribute, Message};
use serde_json::{Value, json};

/// One record of the corpus (`tests/corpus/records.json`).
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The message's body.
    pub body: String,
    /// Whether its event is invoked again; it is dead-lettered otherwise.
    pub is_invoked: bool,
    /// The start of the reason of its dead letter.
    pub reason: String,
}

/// The records of the corpus, as if `function` had failed at `time`.
pub fn corpus(function: &str, time: Timestamp) -> Vec<Case> {
    let text = include_str!("../corpus/records.json")
        .replace("FUNCTION", function)
        .replace("TIME", &rfc3339(time))
        .replace("\"SECONDS\"", &(time.0 / 1_000).to_string());
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    cases.iter().map(case).collect()
}

fn case(case: &Value) -> Case {
    let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
    Case {
        name: text("name"),
        body: case["body"]
            .as_str()
            .map_or_else(|| case["body"].to_string(), str::to_owned),
        is_invoked: text("becomes") == "invoked",
        reason: text("reason"),
    }
}

/// A time in the format of records.
pub fn rfc3339(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(time.0).unwrap()).unwrap();
    format!("{time:.3}")
}

/// The record of a failed invocation.
pub fn record(
    function: &str,
    request_id: &str,
    time: Timestamp,
    event: &Value,
    code: &str,
) -> String {
    json!({
        "version": "1.0",
        "timestamp": rfc3339(time),
        "requestContext": {"requestId": request_id, "functionArn": function, "condition": "RetriesExhausted", "approximateInvokeCount": 1},
        "requestPayload": event,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorType": code, "errorMessage": "as told", "stackTrace": []},
    })
    .to_string()
}

/// The event that a mapping of the queue with this ARN makes of messages.
pub fn event(arn: &str, messages: &[Message]) -> Batch {
    Batch {
        records: messages.iter().map(|message| given(arn, message)).collect(),
    }
}

fn given(arn: &str, message: &Message) -> BatchMessage {
    let attributes: serde_json::Map<String, Value> = message
        .attributes
        .iter()
        .map(|(name, value)| (name.clone(), attribute(value)))
        .collect();
    let mut system = BTreeMap::from([
        (
            "ApproximateReceiveCount".to_owned(),
            message.receive_count.to_string(),
        ),
        ("SentTimestamp".to_owned(), message.sent.0.to_string()),
        (
            "ApproximateFirstReceiveTimestamp".to_owned(),
            message.first_received.0.to_string(),
        ),
    ]);
    let trace = message.trace_header.clone();
    system.extend(trace.map(|trace| ("AWSTraceHeader".to_owned(), trace)));
    BatchMessage {
        message_id: Some(message.id.clone()),
        receipt_handle: Some(message.receipt_handle.0.to_string()),
        body: Some(message.body.to_string()),
        event_source_arn: Some(arn.to_owned()),
        attributes: system,
        message_attributes: serde_json::from_value(Value::Object(attributes)).unwrap(),
    }
}

fn attribute(value: &Attribute) -> Value {
    match value {
        Attribute::Text { data_type, value } => {
            json!({"stringValue": value, "dataType": data_type, "stringListValues": [], "binaryListValues": []})
        }
        Attribute::Binary { data_type, .. } => {
            json!({"binaryValue": value.to_text(), "dataType": data_type, "stringListValues": [], "binaryListValues": []})
        }
    }
}
