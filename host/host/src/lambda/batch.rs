//! The batch of an event source mapping, and the response to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The messages of one invocation, as the event source mapping of an SQS queue passes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// In the order of the event.
    #[serde(rename = "Records", default, deserialize_with = "lenient")]
    pub records: Vec<BatchMessage>,
}

/// One message of a batch. Missing and `null` fields are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchMessage {
    /// SQS's id of the message.
    pub message_id: Option<String>,
    /// Identifies this receive of the message.
    pub receipt_handle: Option<String>,
    /// Its body.
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

/// One of the sender's attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAttribute {
    /// `String`, `Number` or `Binary`, and a label after a dot.
    pub data_type: Option<String>,
    /// The value of a string or a number.
    pub string_value: Option<String>,
    /// A binary value in Base64.
    pub binary_value: Option<String>,
}

/// The failed messages, which stay in the queue. Requires `ReportBatchItemFailures` on the mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// In no particular order.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// A failed message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// SQS's id of the message; never empty, because an empty id fails the whole batch.
    pub item_identifier: String,
}

impl BatchResponse {
    /// Adds the message with this id.
    pub(super) fn add_failure(&mut self, id: String) {
        self.batch_item_failures.push(BatchItemFailure {
            item_identifier: id,
        });
    }
}

/// Reads `null` as the default.
fn lenient<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
