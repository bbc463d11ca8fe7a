//! Converts a message of an event source mapping to a message of a queue.

use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::Instant;

use super::batch::{BatchAttribute, BatchMessage};
use crate::failure::Timestamp;
use crate::queue::{Attribute, LONGEST_VISIBILITY, Message, ReceiptHandle};

/// The longest time for which a message is hidden at once. SQS allows 12 hours from the poller's receive; a batch window of 5 minutes and the function's 15 minutes may have passed since.
pub(crate) const STEP: Duration = Duration::from_secs(42_000);

/// The largest event that Lambda accepts for an asynchronous invocation, in bytes.
pub(super) const EVENT_BYTES: usize = 1 << 20;

/// The message of an event; `None` without a body, an id or a receipt handle. Missing times are `now`.
pub(super) fn message(given: BatchMessage, now: Timestamp) -> Option<Message> {
    let mut system = given.attributes;
    let milliseconds = |value: Option<&String>| {
        let value = value.and_then(|value| value.parse().ok());
        value.map_or(now, Timestamp)
    };
    let sent = milliseconds(system.get("SentTimestamp"));
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    Some(Message {
        id: some(given.message_id)?,
        receipt_handle: ReceiptHandle(some(given.receipt_handle)?.into()),
        body: given.body?.into(),
        attributes: given
            .message_attributes
            .into_iter()
            .filter_map(|(name, value)| Some((name, attribute(value)?)))
            .collect(),
        receive_count: system
            .get("ApproximateReceiveCount")
            .and_then(|count| count.parse().ok())
            .unwrap_or(NonZeroU32::MIN),
        sent,
        kept_since: sent,
        first_received: milliseconds(system.get("ApproximateFirstReceiveTimestamp")),
        received: received(),
        sender: system.remove("SenderId"),
        group: system.remove("MessageGroupId"),
        deduplication_id: system.remove("MessageDeduplicationId"),
        trace_header: system.remove("AWSTraceHeader"),
        dead_letter_source: system.remove("DeadLetterQueueSourceArn"),
        envelope: None,
        received_in: None,
    })
}

/// When the poller received a message, at the earliest.
fn received() -> Instant {
    let (now, before) = (Instant::now(), LONGEST_VISIBILITY.as_duration() - STEP);
    now.checked_sub(before).unwrap_or(now)
}

fn attribute(given: BatchAttribute) -> Option<Attribute> {
    let data_type = given.data_type?;
    match (given.string_value, given.binary_value) {
        (Some(value), _) => Some(Attribute::Text { data_type, value }),
        (None, Some(text)) => Some(Attribute::Binary {
            data_type,
            value: BASE64.decode(text).ok()?,
        }),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Message> {
        message(serde_json::from_str(text).unwrap(), Timestamp(7))
    }

    #[test]
    fn a_message_of_a_mapping_is_read() {
        let found = read(
            r#"{"messageId": "m-1", "receiptHandle": "h", "body": "b", "eventSource": "aws:sqs",
                "attributes": {"ApproximateReceiveCount": "3", "SentTimestamp": "1000", "ApproximateFirstReceiveTimestamp": "2000", "SenderId": "s", "AWSTraceHeader": "Root=1"},
                "messageAttributes": {"a": {"stringValue": "x", "stringListValues": [], "binaryListValues": [], "dataType": "String"}, "b": {"binaryValue": "AQI=", "dataType": "Binary"}}}"#,
        )
        .unwrap();
        assert_eq!((found.id.as_str(), found.receive_count.get()), ("m-1", 3));
        assert_eq!(
            (found.sent, found.first_received),
            (Timestamp(1_000), Timestamp(2_000))
        );
        assert_eq!(found.trace_header.as_deref(), Some("Root=1"));
        assert_eq!(found.attributes["a"], Attribute::string("x"));
        assert_eq!(found.attributes["b"].to_text(), "AQI=");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_may_have_waited_at_its_poller() {
        let found = read(r#"{"messageId": "m", "receiptHandle": "h", "body": "b"}"#).unwrap();
        assert_eq!(found.max_delay().as_duration(), STEP);
    }

    #[test]
    fn missing_fields_get_defaults_except_those_that_identify_a_message() {
        let found = read(r#"{"messageId": "m", "receiptHandle": "h", "body": "b", "attributes": null, "messageAttributes": null}"#).unwrap();
        assert_eq!((found.receive_count.get(), found.sent), (1, Timestamp(7)));
        for text in [
            r#"{"receiptHandle": "h", "body": "b"}"#,
            r#"{"messageId": "", "receiptHandle": "h", "body": "b"}"#,
            r#"{"messageId": "m", "body": "b"}"#,
            r#"{"messageId": "m", "receiptHandle": "h"}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
