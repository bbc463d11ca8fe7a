//! The AWS side of a test: queues created, filled and emptied with the real SDK.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Credentials;
use aws_sdk_sqs::types::{
    Message, MessageSystemAttributeName, QueueAttributeName as Q, SendMessageBatchRequestEntry,
};

/// Credentials that every emulator accepts, as environment variables of a child process.
pub const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", "us-east-1"),
];

/// The SDK's configuration for an emulator.
pub async fn config(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .endpoint_url(endpoint)
        .load()
        .await
}

/// A queue and its dead-letter queue, created for one test.
#[derive(Debug, Clone)]
pub struct Queues {
    /// The SDK's client, connected directly to the emulator.
    pub client: Client,
    /// The emulator.
    pub endpoint: String,
    /// The queue's URL.
    pub url: String,
    /// The dead-letter queue's URL.
    pub dead_letters: String,
}

impl Queues {
    /// The same queues behind a proxy with this address.
    pub fn behind(&self, endpoint: &str) -> Self {
        let behind = |url: &str| url.replace(&self.endpoint, endpoint);
        Self {
            client: self.client.clone(),
            endpoint: endpoint.to_owned(),
            url: behind(&self.url),
            dead_letters: behind(&self.dead_letters),
        }
    }

    /// Standard queues with these attributes on the first.
    pub async fn standard(endpoint: &str, attributes: &[(Q, &str)]) -> Self {
        Self::make(endpoint, "", attributes).await
    }

    /// FIFO queues.
    pub async fn fifo(endpoint: &str, attributes: &[(Q, &str)]) -> Self {
        let mut attributes = attributes.to_vec();
        attributes.extend([
            (Q::FifoQueue, "true"),
            (Q::ContentBasedDeduplication, "true"),
        ]);
        Self::make(endpoint, ".fifo", &attributes).await
    }

    async fn make(endpoint: &str, suffix: &str, attributes: &[(Q, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let client = Client::new(&config(endpoint).await);
        let name = format!(
            "orders-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let kind: &[(Q, &str)] = if suffix.is_empty() {
            &[]
        } else {
            &[(Q::FifoQueue, "true")]
        };
        let dead_letters = create(&client, &format!("{name}-dead{suffix}"), kind).await;
        let url = create(&client, &format!("{name}{suffix}"), attributes).await;
        Self {
            client,
            endpoint: endpoint.to_owned(),
            url,
            dead_letters,
        }
    }

    /// The arguments of `backstop run` that name the two queues and the emulator.
    pub fn arguments(&self) -> [&str; 6] {
        [
            "--queue-url",
            &self.url,
            "--endpoint-url",
            &self.endpoint,
            "--dead-letter-queue",
            &self.dead_letters,
        ]
    }

    /// The queue's ARN.
    pub async fn arn(&self) -> String {
        attribute(&self.client, &self.url, Q::QueueArn).await
    }

    /// Sets a redrive policy with this maximum receive count.
    pub async fn redrive_after(&self, max_receive_count: u32) {
        let arn = attribute(&self.client, &self.dead_letters, Q::QueueArn).await;
        let policy = format!(
            r#"{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": {max_receive_count}}}"#
        );
        self.client
            .set_queue_attributes()
            .queue_url(&self.url)
            .attributes(Q::RedrivePolicy, policy)
            .send()
            .await
            .unwrap();
    }

    /// Sends one message for each body.
    pub async fn send(&self, bodies: impl IntoIterator<Item = String>) {
        self.send_grouped(bodies.into_iter().map(|body| (None, body)))
            .await;
    }

    /// Sends messages to their groups.
    pub async fn send_grouped(&self, messages: impl IntoIterator<Item = (Option<String>, String)>) {
        let entries: Vec<_> = messages
            .into_iter()
            .enumerate()
            .map(|(id, (group, body))| {
                SendMessageBatchRequestEntry::builder()
                    .id(id.to_string())
                    .message_body(body)
                    .set_message_group_id(group)
                    .build()
                    .unwrap()
            })
            .collect();
        for batch in entries.chunks(10) {
            let sent = self
                .client
                .send_message_batch()
                .queue_url(&self.url)
                .set_entries(Some(batch.to_vec()))
                .send()
                .await
                .unwrap();
            assert!(sent.failed.is_empty(), "{:?}", sent.failed);
        }
    }

    /// How many messages the queue holds, invisible ones included.
    pub async fn held(&self) -> usize {
        count(&self.client, &self.url).await
    }

    /// How many messages the dead-letter queue holds.
    pub async fn dead(&self) -> usize {
        count(&self.client, &self.dead_letters).await
    }

    /// How many messages of the queue are invisible.
    pub async fn invisible(&self) -> usize {
        let attributes = attributes(&self.client, &self.url).await;
        number(&attributes, &Q::ApproximateNumberOfMessagesNotVisible)
    }

    /// Takes every dead letter, by body.
    pub async fn take_dead(&self) -> BTreeMap<String, Message> {
        take_all(&self.client, &self.dead_letters).await
    }

    /// Takes everything that is visible in the queue, by body.
    pub async fn take_left(&self) -> BTreeMap<String, Message> {
        take_all(&self.client, &self.url).await
    }
}

async fn create(client: &Client, name: &str, attributes: &[(Q, &str)]) -> String {
    let attributes: HashMap<_, _> = attributes
        .iter()
        .map(|(name, value)| (name.clone(), (*value).to_owned()))
        .collect();
    let made = client
        .create_queue()
        .queue_name(name)
        .set_attributes(Some(attributes))
        .send()
        .await
        .unwrap();
    made.queue_url.unwrap()
}

async fn attribute(client: &Client, url: &str, name: Q) -> String {
    let answer = client
        .get_queue_attributes()
        .queue_url(url)
        .attribute_names(name.clone())
        .send()
        .await
        .unwrap();
    answer.attributes.unwrap()[&name].clone()
}

async fn attributes(client: &Client, url: &str) -> HashMap<Q, String> {
    let request = client.get_queue_attributes().queue_url(url);
    let answer = request.attribute_names(Q::All).send().await.unwrap();
    answer.attributes.unwrap()
}

fn number(attributes: &HashMap<Q, String>, name: &Q) -> usize {
    let number = attributes.get(name).and_then(|text| text.parse().ok());
    number.unwrap_or_default()
}

async fn count(client: &Client, url: &str) -> usize {
    let attributes = attributes(client, url).await;
    [
        Q::ApproximateNumberOfMessages,
        Q::ApproximateNumberOfMessagesNotVisible,
        Q::ApproximateNumberOfMessagesDelayed,
    ]
    .iter()
    .map(|name| number(&attributes, name))
    .sum()
}

/// Receives and deletes until the queue is empty. Two messages with the same body count once: SQS may deliver a copy.
async fn take_all(client: &Client, url: &str) -> BTreeMap<String, Message> {
    let mut taken = BTreeMap::new();
    loop {
        let received = client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(10)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await
            .unwrap();
        let messages = received.messages.unwrap_or_default();
        if messages.is_empty() {
            return taken;
        }
        for message in messages {
            client
                .delete_message()
                .queue_url(url)
                .receipt_handle(message.receipt_handle().unwrap())
                .send()
                .await
                .unwrap();
            taken.insert(message.body().unwrap().to_owned(), message);
        }
    }
}

/// The text of an attribute of a received message.
pub fn text<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message
        .message_attributes
        .as_ref()?
        .get(name)?
        .string_value()
}
