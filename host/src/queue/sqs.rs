//! SQS, over the AWS SDK. The SDK's own retries are off: the consumer owns them, and one call is one request.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use api::{MessageSystemAttributeName as System, QueueAttributeName as Q};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types as api;

use super::{
    Attribute, BatchResult, Description, EntryError, Message, Outgoing, Queue, QueueError,
    ReceiptHandle, Redrive, VisibilityTimeout, short_name,
};
use crate::clock;
use crate::failure::{Milliseconds, Timestamp};

/// The longest that one request may take: longer than the longest poll of 20 s.
const REQUEST: Duration = Duration::from_secs(30);

/// Access to SQS with one set of credentials.
#[derive(Debug, Clone)]
pub struct Sqs {
    client: Client,
}

impl Sqs {
    /// With the SDK's usual configuration, except that it does not retry and never waits for ever.
    pub fn new(config: &SdkConfig) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(3))
            .operation_attempt_timeout(REQUEST)
            .build();
        let config = aws_sdk_sqs::config::Builder::from(config)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .build();
        Self {
            client: Client::from_conf(config),
        }
    }

    /// The queue with this URL. Asks nothing of SQS.
    pub fn queue(&self, url: &str) -> SqsQueue {
        SqsQueue {
            client: self.client.clone(),
            url: url.to_owned(),
        }
    }

    /// The queue with this ARN.
    pub async fn queue_by_arn(&self, arn: &str) -> Result<SqsQueue, QueueError> {
        let owner = arn.split(':').nth(4).filter(|owner| !owner.is_empty());
        let answer = self
            .client
            .get_queue_url()
            .queue_name(short_name(arn))
            .set_queue_owner_aws_account_id(owner.map(str::to_owned))
            .send()
            .await
            .map_err(|error| failed("GetQueueUrl", &error))?;
        let url = answer.queue_url.ok_or_else(|| {
            QueueError::new("GetQueueUrl", "InvalidAnswer", "no URL in the answer")
        })?;
        Ok(self.queue(&url))
    }
}

/// One queue of SQS.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
}

#[async_trait]
impl Queue for SqsQueue {
    fn url(&self) -> &str {
        &self.url
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        let answer = self
            .client
            .get_queue_attributes()
            .queue_url(&self.url)
            .attribute_names(Q::All)
            .send()
            .await
            .map_err(|error| failed("GetQueueAttributes", &error))?;
        Ok(description(
            &self.url,
            &answer.attributes.unwrap_or_default(),
        ))
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(10))
            .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(20))
            .visibility_timeout(i32::try_from(visibility.seconds()).unwrap_or(i32::MAX))
            .message_system_attribute_names(System::All)
            .message_attribute_names("All")
            .send()
            .await
            .map_err(|error| failed("ReceiveMessage", &error))?;
        let received = clock::now();
        Ok(answer
            .messages
            .unwrap_or_default()
            .into_iter()
            .filter_map(|message| incoming(message, received))
            .collect())
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        const OPERATION: &str = "DeleteMessageBatch";
        let entries = handles.iter().enumerate().map(|(id, handle)| {
            api::DeleteMessageBatchRequestEntry::builder()
                .id(id.to_string())
                .receipt_handle(&handle.0)
                .build()
        });
        let answer = self
            .client
            .delete_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(built(OPERATION, entries)?))
            .send()
            .await
            .map_err(|error| failed(OPERATION, &error))?;
        Ok(sorted(
            handles.len(),
            answer.successful.iter().map(|entry| entry.id.as_str()),
            answer.failed,
        ))
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        const OPERATION: &str = "ChangeMessageVisibilityBatch";
        let entries = changes.iter().enumerate().map(|(id, (handle, timeout))| {
            api::ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(id.to_string())
                .receipt_handle(&handle.0)
                .visibility_timeout(i32::try_from(timeout.seconds()).unwrap_or(i32::MAX))
                .build()
        });
        let answer = self
            .client
            .change_message_visibility_batch()
            .queue_url(&self.url)
            .set_entries(Some(built(OPERATION, entries)?))
            .send()
            .await
            .map_err(|error| failed(OPERATION, &error))?;
        Ok(sorted(
            changes.len(),
            answer.successful.iter().map(|entry| entry.id.as_str()),
            answer.failed,
        ))
    }

    async fn send(&self, messages: &[Outgoing]) -> BatchResult {
        const OPERATION: &str = "SendMessageBatch";
        let mut entries = Vec::with_capacity(messages.len());
        for (id, message) in messages.iter().enumerate() {
            entries.push(outgoing(OPERATION, id, message)?);
        }
        let answer = self
            .client
            .send_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries))
            .send()
            .await
            .map_err(|error| failed(OPERATION, &error))?;
        Ok(sorted(
            messages.len(),
            answer.successful.iter().map(|entry| entry.id.as_str()),
            answer.failed,
        ))
    }
}

/// The host builds every entry with all that the SDK requires; this says so without a panic.
fn built<T, E: std::fmt::Display>(
    operation: &'static str,
    entries: impl Iterator<Item = Result<T, E>>,
) -> Result<Vec<T>, QueueError> {
    entries
        .collect::<Result<_, _>>()
        .map_err(|error| QueueError::new(operation, "InvalidParameterValue", error.to_string()))
}

fn outgoing(
    operation: &'static str,
    id: usize,
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
    let attributes: HashMap<_, _> = built(operation, attributes)?.into_iter().collect();
    let mut entry = api::SendMessageBatchRequestEntry::builder()
        .id(id.to_string())
        .message_body(message.body.as_ref())
        .set_message_attributes(Some(attributes))
        .set_message_group_id(message.group.clone())
        .set_message_deduplication_id(message.deduplication_id.clone());
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

/// A received message; none where SQS left out its id, handle or body, without which nothing can be done but to wait for it to come again.
fn incoming(message: api::Message, received: Timestamp) -> Option<Message> {
    let mut system = message.attributes.unwrap_or_default();
    let milliseconds =
        |value: Option<&String>| value.and_then(|value| value.parse().ok()).map(Timestamp);
    let sent = milliseconds(system.get(&System::SentTimestamp)).unwrap_or(received);
    let (Some(id), Some(handle), Some(body)) =
        (message.message_id, message.receipt_handle, message.body)
    else {
        tracing::warn!(
            "a message came without an id, a receipt handle or a body: left to come again"
        );
        return None;
    };
    Some(Message {
        id,
        receipt_handle: ReceiptHandle(handle),
        body: body.into(),
        attributes: message
            .message_attributes
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(name, value)| Some((name, attribute(value)?)))
            .collect::<BTreeMap<_, _>>(),
        receive_count: system
            .get(&System::ApproximateReceiveCount)
            .and_then(|count| count.parse().ok())
            .unwrap_or(NonZeroU32::MIN),
        sent,
        first_received: milliseconds(system.get(&System::ApproximateFirstReceiveTimestamp))
            .unwrap_or(received),
        received,
        sender: system.remove(&System::SenderId),
        group: system.remove(&System::MessageGroupId),
        deduplication_id: system.remove(&System::MessageDeduplicationId),
        trace_header: system.remove(&System::AwsTraceHeader),
    })
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

fn description(url: &str, attributes: &HashMap<Q, String>) -> Description {
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
            .unwrap_or(super::BATCH_BYTES),
        redrive: attributes
            .get(&Q::RedrivePolicy)
            .and_then(|policy| redrive(policy)),
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

/// One answer for each entry, whose id is its index.
fn sorted<'a>(
    entries: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: Vec<api::BatchResultErrorEntry>,
) -> Vec<Result<(), EntryError>> {
    let mut results = vec![Err(EntryError::unanswered()); entries];
    let mut set = |id: &str, result| {
        if let Some(place) = id
            .parse()
            .ok()
            .and_then(|index: usize| results.get_mut(index))
        {
            *place = result;
        }
    };
    successful.for_each(|id| set(id, Ok(())));
    for entry in failed {
        set(
            &entry.id,
            Err(EntryError::new(
                entry.code,
                entry.message.unwrap_or_default(),
                entry.sender_fault,
            )),
        );
    }
    results
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum may grow: whatever else it is, there was no answer"
)]
fn failed<E, R>(operation: &'static str, error: &SdkError<E, R>) -> QueueError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug,
{
    match error {
        SdkError::ServiceError(service) => {
            let code = error.code().unwrap_or("UnknownError");
            let message = error
                .message()
                .map_or_else(|| service.err().to_string(), str::to_owned);
            QueueError::new(operation, code, message)
        }
        SdkError::TimeoutError(_) => QueueError::new(
            operation,
            "timeout",
            format!("no answer within {}s", REQUEST.as_secs()),
        ),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => {
            QueueError::new(operation, "timeout", "no connection within 3s")
        }
        _ => QueueError::new(
            operation,
            "no answer",
            DisplayErrorContext(error).to_string(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_in_neither_list_of_the_answer_is_tried_again() {
        let throttled = api::BatchResultErrorEntry::builder()
            .id("1")
            .code("RequestThrottled")
            .sender_fault(true)
            .build()
            .unwrap();
        let results = sorted(3, ["0"].into_iter(), vec![throttled]);
        assert_eq!(results[0], Ok(()));
        assert!(
            results[1]
                .as_ref()
                .is_err_and(|error| error.code == "RequestThrottled" && error.retryable)
        );
        assert_eq!(results[2], Err(EntryError::unanswered()));
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
