//! The event source mapping's batch, and the answer to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The messages of one invocation, as the event source mapping of an SQS queue hands them over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// In the order of the event.
    #[serde(rename = "Records", default, deserialize_with = "lenient")]
    pub records: Vec<BatchMessage>,
}

/// One message of a batch. What is missing or `null` is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchMessage {
    /// SQS's id of the message.
    pub message_id: Option<String>,
    /// What names this receive of it.
    pub receipt_handle: Option<String>,
    /// Its text.
    pub body: Option<String>,
    /// SQS's own attributes, such as `ApproximateReceiveCount`.
    #[serde(deserialize_with = "lenient")]
    pub attributes: BTreeMap<String, String>,
    /// The sender's attributes.
    #[serde(deserialize_with = "lenient")]
    pub message_attributes: BTreeMap<String, BatchAttribute>,
    /// The queue.
    #[serde(rename = "eventSourceARN")]
    pub event_source_arn: Option<String>,
}

/// An attribute of the sender's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAttribute {
    /// `String`, `Number` or `Binary`, and a label after a dot.
    pub data_type: Option<String>,
    /// The value of a string or a number.
    pub string_value: Option<String>,
    /// The value of bytes, in Base64.
    pub binary_value: Option<String>,
}

/// Which messages are not done: those stay in the queue. Needs `ReportBatchItemFailures` on the mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// In no order.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// A message that is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// SQS's id of the message; never empty, which would fail the whole batch.
    pub item_identifier: String,
}

impl BatchResponse {
    /// Adds the message of this id.
    pub fn add_failure(&mut self, id: String) {
        self.batch_item_failures.push(BatchItemFailure {
            item_identifier: id,
        });
    }
}

/// `null` is nothing.
fn lenient<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
