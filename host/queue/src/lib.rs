//! Queues: what a host asks of them, and their two implementations: SQS, and a local queue in the host's memory with SQS's semantics.
//!
//! ```
//! use backstop_queue::{Connections, Outgoing, Queue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let orders = Connections::default().local.named("orders");
//! orders.send(&[Outgoing::new("an order")]).await?;
//! assert_eq!(orders.len(), 1);
//! # Ok(())
//! # }
//! ```

mod batched;
mod batcher;
mod batches;
mod connections;
pub mod dead_letter;
pub mod envelope;
mod error;
mod example;
mod limits;
mod linger;
mod local;
mod message;
mod retry;
mod sqs;
mod trace;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

pub use batched::{Batched, BatchedSends, BatchedWakes, Count, RECEIVE, Requests};
pub use batches::{batches, rounds};
pub use connections::Connections;
pub use envelope::MessageEnvelope;
pub use error::{CREATE_IT, ERROR_CODES};
pub use error::{EntryError, QueueError, SubmitError};
pub use example::ordinary_message;
pub use limits::{BATCH_BYTES, BATCH_ENTRIES, LONGEST_SEND_DELAY, MAX_ATTRIBUTES, is_allowed};
pub use linger::{Caller, Callers, Linger};
pub use local::{LocalQueue, LocalQueues, LocalSettings};
pub use message::LONGEST_VISIBILITY;
pub use message::{Attribute, Message, Outgoing, ReceiptHandle, VisibilityTimeout, message_size};
pub use retry::{AFTER_LOST_SEND, Retry, Tried};
pub use sqs::{MoveTask, Sqs, SqsQueue};

pub use backstop_aws::Meaning;
use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};

/// A queue's attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The ARN; `local:NAME` for a local queue.
    pub arn: String,
    /// Whether it keeps the order within message groups.
    pub fifo: bool,
    /// How long a received message stays invisible by default.
    pub visibility_timeout: VisibilityTimeout,
    /// How long it keeps a message.
    pub retention: Milliseconds,
    /// The largest message that it accepts, body and attributes, in bytes.
    pub max_message_bytes: usize,
    /// The approximate number of messages that can be received now; `None` if the queue does not report it.
    pub visible: Option<usize>,
    /// The approximate number of messages that are invisible now; `None` if the queue does not report it. At 120 000, SQS delivers no more.
    pub in_flight: Option<usize>,
    /// The approximate number of messages that were sent with a delay and can't be received yet; `None` if the queue does not report it.
    pub delayed: Option<usize>,
    /// Its own redrive policy, if it has one.
    pub redrive: Option<Redrive>,
    /// How long a message is invisible after it was sent, if its sender does not say: `DelaySeconds`.
    pub delay: Milliseconds,
    /// Its access policy as JSON, if it has one: who may use it, apart from the roles of its account.
    pub access_policy: Option<String>,
}

/// A queue's own redrive policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The ARN of the dead-letter queue.
    pub dead_letter_arn: String,
    /// How many receives of a message the queue allows before it moves the message.
    pub max_receive_count: NonZeroU32,
}

/// The result of each entry of a batch, in the order of the entries.
pub type BatchResult = Result<Vec<Result<(), EntryError>>, QueueError>;

/// The result of each message of a batch, in the order of the messages: the id that it has got, if the queue reports it.
pub type TrackedResult = Result<Vec<Result<Option<String>, EntryError>>, QueueError>;

/// The queue operations that the consumer uses. Each call is one API request; a batch has 1 to [`BATCH_ENTRIES`] entries.
#[async_trait]
pub trait Queue: std::fmt::Debug + Send + Sync {
    /// Its URL, or `local:NAME`.
    fn url(&self) -> &str;

    /// The current time on the clock of its messages' timestamps.
    fn now(&self) -> Timestamp {
        clock::now()
    }

    /// This process may have been frozen, so that its clocks stood still: what it knows of the queue's time may be wrong.
    fn was_frozen(&self) {}

    /// Fetches its attributes.
    async fn describe(&self) -> Result<Description, QueueError>;

    /// Receives at most `max` messages, waiting for at most `wait` (20 s). They stay invisible for `visibility`.
    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError>;

    /// Whether the future of a receive may be dropped. With SQS it must not: the service continues the request, and messages that it delivers to no one stay invisible.
    fn receive_is_cancel_safe(&self) -> bool {
        false
    }

    /// Deletes messages. Succeeds for a message that is already deleted.
    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult;

    /// Changes when messages become visible again, counted from now.
    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult;

    /// Sends messages.
    async fn send(&self, messages: &[Outgoing]) -> BatchResult {
        let results = self.send_tracked(messages).await?;
        Ok(results.into_iter().map(|it| it.map(drop)).collect())
    }

    /// Sends messages. Returns the id that each has got, if the queue reports it.
    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult;

    /// Fetches its tags.
    async fn tags(&self) -> Result<HashMap<String, String>, QueueError> {
        Err(no_tags("ListQueueTags"))
    }

    /// Sets one of its tags, or removes it.
    async fn set_tag(&self, _key: &str, _value: Option<&str>) -> Result<(), QueueError> {
        Err(no_tags("TagQueue"))
    }
}

fn no_tags(operation: &'static str) -> QueueError {
    QueueError::new(operation, "UnsupportedOperation", "the queue has no tags")
}

/// The name of a queue: the last part of a URL, an ARN or `local:NAME`.
pub fn short_name(url: &str) -> &str {
    url.rsplit(['/', ':']).next().unwrap_or(url)
}
