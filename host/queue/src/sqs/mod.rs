//! SQS through the AWS SDK. The SDK's retries are disabled: one call is one request, and the consumer retries.

mod moves;
mod tags;
mod time;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::{MessageSystemAttributeName as System, QueueAttributeName as Q};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::StalledStreamProtectionConfig;
use aws_sdk_sqs::types as api;
use tokio::time::Instant;

use super::{
    BatchResult, Description, EntryError, Message, Outgoing, Queue, QueueError, ReceiptHandle,
    TrackedResult, VisibilityTimeout, short_name,
};
use backstop_aws::{Endpoint, Meaning, ResponseLimit, ServiceTime};
use backstop_core::clock;
use backstop_core::failure::Timestamp;
pub use moves::MoveTask;
use time::ServiceClock;
use wire::{build_all, description, entry_results, incoming, outgoing};

/// How long one request may take; longer than the longest poll of 20 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const SEND: &str = "SendMessageBatch";

/// Access to SQS with one set of credentials.
#[derive(Debug, Clone)]
pub struct Sqs {
    client: Client,
    endpoint: Endpoint,
    clock: Arc<ServiceClock>,
}

impl Sqs {
    /// Uses this SDK configuration, without retries and with timeouts.
    pub fn new(config: &SdkConfig) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(3))
            .operation_attempt_timeout(REQUEST_TIMEOUT)
            .build();
        let endpoint = Endpoint::of("SQS", config);
        let mut config = aws_sdk_sqs::config::Builder::from(config)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            // The timeout of an attempt is enough, and costs less.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        config.push_interceptor(ResponseLimit::SQS.into());
        let clock = Arc::new(ServiceClock::new(clock::instant()));
        let own = Arc::clone(&clock);
        let time = ServiceTime::new(move |it| own.observe(it.time, it.sent, it.received));
        config.push_interceptor(time.into());
        Self {
            clock,
            client: Client::from_conf(config.build()),
            endpoint,
        }
    }

    /// The queue with this URL. Sends no request.
    pub fn queue(&self, url: &str) -> SqsQueue {
        SqsQueue {
            client: self.client.clone(),
            endpoint: self.endpoint.clone(),
            clock: Arc::clone(&self.clock),
            url: url.to_owned(),
        }
    }

    /// Looks up the queue with this ARN. SQS looks it up by its name and account, in the region of the requests: one of another region is refused, since a queue of the same name may be there.
    pub async fn queue_by_arn(&self, arn: &str) -> Result<SqsQueue, QueueError> {
        let region = arn.split(':').nth(3).unwrap_or_default();
        if let Some(own) = self.endpoint.other_region(region) {
            return Err(QueueError {
                operation: "GetQueueUrl",
                code: "OtherRegion".to_owned(),
                message: format!(
                    "{arn} is in {region}, but requests go to {own}: set AWS_REGION={region}"
                ),
                status: None,
                meaning: Meaning::Unusable,
            });
        }
        let owner = arn.split(':').nth(4).filter(|owner| !owner.is_empty());
        let response = self
            .client
            .get_queue_url()
            .queue_name(short_name(arn))
            .set_queue_owner_aws_account_id(owner.map(str::to_owned))
            .send()
            .await
            .map_err(|error| QueueError::of("GetQueueUrl", self.endpoint.failed(&error)))?;
        let url = response.queue_url.ok_or_else(|| {
            QueueError::new("GetQueueUrl", "InvalidAnswer", "the response has no URL")
        })?;
        Ok(self.queue(&url))
    }
}

/// A queue in SQS.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    endpoint: Endpoint,
    clock: Arc<ServiceClock>,
    url: String,
}

impl SqsQueue {
    /// Where its requests go.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Fetches its attributes as SQS has them.
    pub async fn attributes(&self) -> Result<HashMap<Q, String>, QueueError> {
        let response = self
            .client
            .get_queue_attributes()
            .queue_url(&self.url)
            .attribute_names(Q::All)
            .send()
            .await
            .map_err(|error| {
                let error = QueueError::of("GetQueueAttributes", self.endpoint.failed(&error));
                let advice = self.endpoint.instead_of(&self.url);
                match advice.or_else(|| self.endpoint.instead_of_region(&self.url)) {
                    Some(advice) => QueueError {
                        message: format!("{}; {advice}", error.message),
                        ..error
                    },
                    None => error,
                }
            })?;
        Ok(response.attributes.unwrap_or_default())
    }

    /// What its attributes say.
    pub fn described(&self, attributes: &HashMap<Q, String>) -> Description {
        description(&self.url, attributes)
    }

    /// Sends messages as the SDK has them, with ids of its own. Returns what SQS says of each, in their order.
    pub async fn send_entries(
        &self,
        mut entries: Vec<api::SendMessageBatchRequestEntry>,
    ) -> Result<Vec<Result<api::SendMessageBatchResultEntry, EntryError>>, QueueError> {
        let count = entries.len();
        for (id, entry) in entries.iter_mut().enumerate() {
            entry.id = id.to_string();
        }
        let response = self
            .client
            .send_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries))
            .send()
            .await
            .map_err(|error| QueueError::of(SEND, self.endpoint.failed(&error)))?;
        let sent = response.successful.into_iter();
        let sent = sent.map(|entry| (entry.id.clone(), entry));
        Ok(entry_results(count, sent, response.failed))
    }
}

#[async_trait]
impl Queue for SqsQueue {
    fn url(&self) -> &str {
        &self.url
    }

    fn now(&self) -> Timestamp {
        self.clock.now(clock::instant(), clock::now)
    }

    fn was_frozen(&self) {
        self.clock.forget();
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        Ok(self.described(&self.attributes().await?))
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        let sent = clock::instant();
        let response = self
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
            .map_err(|error| QueueError::of("ReceiveMessage", self.endpoint.failed(&error)))?;
        let received = (self.now(), Instant::now());
        let messages: Vec<_> = response
            .messages
            .unwrap_or_default()
            .into_iter()
            .filter_map(|message| incoming(message, received))
            .collect();
        // An endpoint whose responses have no `Date` says its time here. Only of the last message: those of one response agree, and are one answer.
        if let Some(first) = messages.iter().rfind(|it| it.receive_count.get() == 1) {
            self.clock
                .observe(first.first_received, sent, clock::instant());
        }
        Ok(messages)
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        const OPERATION: &str = "DeleteMessageBatch";
        let entries = handles.iter().enumerate().map(|(id, handle)| {
            api::DeleteMessageBatchRequestEntry::builder()
                .id(id.to_string())
                .receipt_handle(&*handle.0)
                .build()
        });
        let response = self
            .client
            .delete_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(build_all(OPERATION, entries)?))
            .send()
            .await
            .map_err(|error| QueueError::of(OPERATION, self.endpoint.failed(&error)))?;
        Ok(entry_results(
            handles.len(),
            response.successful.into_iter().map(|entry| (entry.id, ())),
            response.failed,
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
                .receipt_handle(&*handle.0)
                .visibility_timeout(i32::try_from(timeout.seconds()).unwrap_or(i32::MAX))
                .build()
        });
        let response = self
            .client
            .change_message_visibility_batch()
            .queue_url(&self.url)
            .set_entries(Some(build_all(OPERATION, entries)?))
            .send()
            .await
            .map_err(|error| QueueError::of(OPERATION, self.endpoint.failed(&error)))?;
        Ok(entry_results(
            changes.len(),
            response.successful.into_iter().map(|entry| (entry.id, ())),
            response.failed,
        ))
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        let entries = messages.iter().map(|message| outgoing(SEND, message));
        let results = self
            .send_entries(entries.collect::<Result<_, _>>()?)
            .await?;
        let ids = results.into_iter();
        Ok(ids.map(|it| it.map(|sent| Some(sent.message_id))).collect())
    }

    async fn tags(&self) -> Result<HashMap<String, String>, QueueError> {
        self.list_tags().await
    }

    async fn set_tag(&self, key: &str, value: Option<&str>) -> Result<(), QueueError> {
        match value {
            Some(value) => self.tag(key, value).await,
            None => self.untag(key).await,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queue_of_another_region_is_refused_without_a_request() {
        let region = aws_config::Region::new("us-east-1");
        let sdk = SdkConfig::builder()
            .region(region)
            .behavior_version(aws_config::BehaviorVersion::latest())
            .build();
        let arn = "arn:aws:sqs:eu-west-1:123456789012:orders";
        let error = Sqs::new(&sdk).queue_by_arn(arn).await.unwrap_err();
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            format!(
                "GetQueueUrl failed: OtherRegion: {arn} is in eu-west-1, but requests go to us-east-1: set AWS_REGION=eu-west-1"
            )
        );
    }
}
