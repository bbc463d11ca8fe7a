//! A queue as the consumer needs it, and the two that there are: SQS, and one in the host's own memory with SQS's semantics.

mod batched;
mod batcher;
mod connections;
mod error;
mod limits;
mod local;
mod message;
mod sqs;

use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use batched::{Batched, BatchedSends};
pub use batched::{Count, Requests};
pub use batcher::GaveUp;
pub use connections::Connections;
pub use error::{EntryError, QueueError};
pub use limits::{BATCH_BYTES, BATCH_ENTRIES, MAX_ATTRIBUTES, is_allowed};
pub use local::{LocalQueue, LocalQueues, LocalSettings};
pub use message::{Attribute, Message, Outgoing, ReceiptHandle, VisibilityTimeout};
pub use sqs::{Sqs, SqsQueue};

use crate::clock;
use crate::failure::{Milliseconds, Timestamp};

/// What a queue says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The ARN; `local:NAME` for a local queue.
    pub arn: String,
    /// Whether it keeps the order within message groups.
    pub fifo: bool,
    /// How long a received message stays invisible unless something else is asked for.
    pub visibility_timeout: VisibilityTimeout,
    /// For how long it keeps a message.
    pub retention: Milliseconds,
    /// The largest message that it takes, body and attributes, in bytes.
    pub max_message_bytes: usize,
    /// How many of its messages are invisible now, about; none where it does not tell. SQS stalls a queue at 120 000.
    pub in_flight: Option<usize>,
    /// Where it moves what was received too often by itself.
    pub redrive: Option<Redrive>,
}

/// A queue's own redrive policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The ARN of the dead-letter queue.
    pub dead_letter_arn: String,
    /// How often a message is received before it is moved.
    pub max_receive_count: NonZeroU32,
}

/// One answer for each entry of a batch, in the order of the entries.
pub type BatchResult = Result<Vec<Result<(), EntryError>>, QueueError>;

/// The queue operations that the consumer is made of. Each call is one API request; a batch has 1 to [`BATCH_ENTRIES`] entries.
#[async_trait]
pub trait Queue: std::fmt::Debug + Send + Sync {
    /// Its URL, or `local:NAME`.
    fn url(&self) -> &str;

    /// The time of day by which its messages' times are to be read.
    fn now(&self) -> Timestamp {
        clock::now()
    }

    /// What it says of itself.
    async fn describe(&self) -> Result<Description, QueueError>;

    /// At most `max` messages, after at most `wait` (20 s). They stay invisible for `visibility`.
    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError>;

    /// Whether a receive may be dropped. One of SQS's goes on at the other side, takes messages to nobody, and hides them.
    fn receive_is_cancel_safe(&self) -> bool {
        false
    }

    /// Removes messages for good. Removing what is gone succeeds.
    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult;

    /// Makes messages visible again after another time, counted from now.
    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult;

    /// Adds messages.
    async fn send(&self, messages: &[Outgoing]) -> BatchResult;
}

/// The last part of a URL, an ARN or `local:NAME`: what people call a queue.
pub fn short_name(url: &str) -> &str {
    url.rsplit(['/', ':']).next().unwrap_or(url)
}
