//! Converts between the SDK's types and the queue's.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use api::{MessageSystemAttributeName as System, QueueAttributeName as Q};
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types as api;
use tokio::time::Instant;

use crate::{
    Attribute, BATCH_BYTES, Description, EntryError, Message, Outgoing, QueueError, ReceiptHandle,
    Redrive, VisibilityTimeout,
};
use backstop_core::failure::{Milliseconds, Timestamp};

/// Collects SDK builders' results. They never fail, because the host sets every required field; this avoids a panic.
pub(super) fn build_all<T, E: std::fmt::Display>(
    operation: &'static str,
    entries: impl Iterator<Item = Result<T, E>>,
) -> Result<Vec<T>, QueueError> {
    entries
        .collect::<Result<_, _>>()
        .map_err(|error| QueueError::new(operation, "InvalidParameterValue", error.to_string()))
}

/// A message as an entry, whose id is set when it is sent.
pub(super) fn outgoing(
    operation: &'static str,
    message: &Outgoing,
) -> Result<api::SendMessageBatchRequestEntry, QueueError> {
    let attributes = message.attributes.iter().map(|(name, attribute)| {
        let value = api::MessageAttributeValue::builder();
        let value = match attribute {
            Attribute::Text {
                data_type,
                value: text,
            } => value.data_type(data_type).string_value(text),
            Attribute::Binary {
                data_type,
                value: bytes,
            } => value
                .data_type(data_type)
                .binary_value(Blob::new(bytes.clone())),
        };
        value.build().map(|value| (name.clone(), value))
    });
    let attributes: HashMap<_, _> = build_all(operation, attributes)?.into_iter().collect();
    let mut entry = api::SendMessageBatchRequestEntry::builder()
        .id("0")
        .message_body(message.body.as_ref())
        .set_message_attributes(Some(attributes))
        .set_message_group_id(message.group.clone())
        .set_message_deduplication_id(message.deduplication_id.clone());
    if let Some(delay) = message.delay {
        let seconds = VisibilityTimeout::rounded_up(delay).seconds();
        entry = entry.delay_seconds(i32::try_from(seconds).unwrap_or(i32::MAX));
    }
    if let Some(trace) = &message.trace_header {
        let trace = api::MessageSystemAttributeValue::builder()
            .data_type("String")
            .string_value(trace)
            .build();
        let trace = trace.map_err(|error| {
            QueueError::new(operation, "InvalidParameterValue", error.to_string())
        })?;
        entry = entry.message_system_attributes(
            api::MessageSystemAttributeNameForSends::AwsTraceHeader,
            trace,
        );
    }
    entry
        .build()
        .map_err(|error| QueueError::new(operation, "InvalidParameterValue", error.to_string()))
}

/// A received message; `None` if it lacks an id, handle or body, without which it can't be handled.
pub(super) fn incoming(
    message: api::Message,
    (now, received): (Timestamp, Instant),
) -> Option<Message> {
    let (Some(id), Some(handle), Some(body)) =
        (message.message_id, message.receipt_handle, message.body)
    else {
        tracing::warn!("a message has no id, receipt handle or body: it is delivered again");
        return None;
    };
    let attributes = message.message_attributes.unwrap_or_default().into_iter();
    let mut incoming = Message {
        id,
        receipt_handle: ReceiptHandle(handle.into()),
        body: body.into(),
        attributes: attributes
            .filter_map(|(name, value)| Some((name, attribute(value)?)))
            .collect::<BTreeMap<_, _>>(),
        receive_count: NonZeroU32::MIN,
        sent: now,
        kept_since: now,
        first_received: now,
        received,
        sender: None,
        group: None,
        deduplication_id: None,
        trace_header: None,
        dead_letter_source: None,
        envelope: None,
        received_in: None,
    };
    for (name, value) in message.attributes.unwrap_or_default() {
        #[expect(clippy::wildcard_enum_match_arm, reason = "SQS may add attributes")]
        match name {
            System::ApproximateReceiveCount => {
                incoming.receive_count = value.parse().unwrap_or(NonZeroU32::MIN);
            }
            System::SentTimestamp => incoming.sent = milliseconds(&value).unwrap_or(now),
            System::ApproximateFirstReceiveTimestamp => {
                incoming.first_received = milliseconds(&value).unwrap_or(now);
            }
            System::SenderId => incoming.sender = Some(value),
            System::MessageGroupId => incoming.group = Some(value),
            System::MessageDeduplicationId => incoming.deduplication_id = Some(value),
            System::AwsTraceHeader => incoming.trace_header = Some(value),
            System::DeadLetterQueueSourceArn => incoming.dead_letter_source = Some(value),
            _ => {}
        }
    }
    incoming.kept_since = incoming.sent;
    Some(incoming)
}

fn milliseconds(value: &str) -> Option<Timestamp> {
    value.parse().ok().map(Timestamp)
}

fn attribute(value: api::MessageAttributeValue) -> Option<Attribute> {
    let data_type = value.data_type;
    match (value.string_value, value.binary_value) {
        (Some(value), _) => Some(Attribute::Text { data_type, value }),
        (None, Some(bytes)) => Some(Attribute::Binary {
            data_type,
            value: bytes.into_inner(),
        }),
        (None, None) => None,
    }
}

pub(super) fn description(url: &str, attributes: &HashMap<Q, String>) -> Description {
    let number = |name: &Q| {
        attributes
            .get(name)
            .and_then(|value| value.parse::<u64>().ok())
    };
    let seconds = |name: &Q, default: u64| Duration::from_secs(number(name).unwrap_or(default));
    Description {
        arn: attributes
            .get(&Q::QueueArn)
            .cloned()
            .unwrap_or_else(|| url.to_owned()),
        fifo: attributes
            .get(&Q::FifoQueue)
            .is_some_and(|fifo| fifo == "true")
            || url.ends_with(".fifo"),
        visibility_timeout: VisibilityTimeout::rounded_up(seconds(&Q::VisibilityTimeout, 30)),
        retention: Milliseconds::from_duration(seconds(&Q::MessageRetentionPeriod, 4 * 86_400)),
        max_message_bytes: number(&Q::MaximumMessageSize)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(BATCH_BYTES),
        visible: number(&Q::ApproximateNumberOfMessages)
            .and_then(|count| usize::try_from(count).ok()),
        in_flight: number(&Q::ApproximateNumberOfMessagesNotVisible)
            .and_then(|count| usize::try_from(count).ok()),
        delayed: number(&Q::ApproximateNumberOfMessagesDelayed)
            .and_then(|count| usize::try_from(count).ok()),
        redrive: attributes
            .get(&Q::RedrivePolicy)
            .and_then(|policy| redrive(policy)),
        delay: Milliseconds::from_duration(seconds(&Q::DelaySeconds, 0)),
        access_policy: attributes
            .get(&Q::Policy)
            .filter(|policy| !policy.trim().is_empty())
            .cloned(),
    }
}

/// `{"deadLetterTargetArn": "...", "maxReceiveCount": 5}`, the count a number or a string.
fn redrive(policy: &str) -> Option<Redrive> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    let count = policy.get("maxReceiveCount")?;
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    Some(Redrive {
        dead_letter_arn: policy.get("deadLetterTargetArn")?.as_str()?.to_owned(),
        max_receive_count: NonZeroU32::new(u32::try_from(count).ok()?)?,
    })
}

/// The result of each entry, in order. An entry's id is its index.
pub(super) fn entry_results<T>(
    entries: usize,
    successful: impl Iterator<Item = (String, T)>,
    failed: Vec<api::BatchResultErrorEntry>,
) -> Vec<Result<T, EntryError>> {
    let mut results: Vec<_> = std::iter::repeat_with(|| None).take(entries).collect();
    let failed = failed.into_iter().map(|entry| {
        let message = entry.message.unwrap_or_default();
        let error = EntryError::new(entry.code, message, entry.sender_fault);
        (entry.id, Err(error))
    });
    for (id, result) in successful.map(|(id, entry)| (id, Ok(entry))).chain(failed) {
        let index = id.parse().ok();
        if let Some(slot) = index.and_then(|index: usize| results.get_mut(index)) {
            *slot = Some(result);
        }
    }
    let missing = || Err(EntryError::missing());
    let results = results.into_iter();
    results.map(|it| it.unwrap_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::short_name;

    #[test]
    fn an_entry_that_the_response_does_not_mention_is_retryable() {
        let throttled = api::BatchResultErrorEntry::builder()
            .id("1")
            .code("RequestThrottled")
            .sender_fault(true)
            .build()
            .unwrap();
        let sent = ("0".to_owned(), ());
        let results = entry_results(3, [sent].into_iter(), vec![throttled]);
        assert_eq!(results[0], Ok(()));
        assert!(
            results[1]
                .as_ref()
                .is_err_and(|error| error.code == "RequestThrottled" && error.retryable)
        );
        assert_eq!(results[2], Err(EntryError::missing()));
    }

    #[test]
    fn a_redrive_policy_is_read_with_its_count_as_number_or_string() {
        for count in ["5", "\"5\""] {
            let policy = format!(
                r#"{{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:1:dead", "maxReceiveCount": {count}}}"#
            );
            let redrive = redrive(&policy).unwrap();
            assert_eq!(redrive.max_receive_count.get(), 5);
            assert_eq!(short_name(&redrive.dead_letter_arn), "dead");
        }
        assert_eq!(redrive("{}"), None);
    }
}
