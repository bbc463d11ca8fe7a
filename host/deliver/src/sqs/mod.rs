//! Delivery to SQS queues, standard and FIFO.
//!
//! An entry is the SDK's own type. [`message`] starts one:
//!
//! ```no_run
//! use backstop_deliver::Delivery;
//! use backstop_deliver::sqs::{Queue, message};
//! use futures_util::stream;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = aws_config::load_from_env().await;
//! let queue = Queue::open(&config, "https://sqs.eu-west-1.amazonaws.com/123456789012/orders").await?;
//! let entries = (0..1_000_000).map(|order| message(format!("order {order}")).build().unwrap());
//! let report = Delivery::new(queue).send(stream::iter(entries)).await?;
//! for outcome in &report.undelivered {
//!     eprintln!("{}: {:?}", outcome.entry.message_body(), outcome.status);
//! }
//! # Ok(()) }
//! ```

mod size;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use aws_config::SdkConfig;
use aws_sdk_sqs::types::builders::SendMessageBatchRequestEntryBuilder;
use aws_sdk_sqs::types::{QueueAttributeName as Q, SendMessageBatchRequestEntry};
use backstop_aws::FailedRequest;
use backstop_core::failure::Error;
use backstop_queue::{BATCH_BYTES, BATCH_ENTRIES, EntryError, QueueError, Sqs, SqsQueue};

use crate::aws::{OpenError, open_error, request_error};
use crate::target::{EntryResult, Group, Limits, RequestError, Target};

pub use size::size;

/// Starts an entry with this body. Its id, which the SDK asks for, is replaced in each request.
///
/// ```
/// use backstop_deliver::sqs::message;
/// let entry = message("order 7").message_group_id("customer 3").build().unwrap();
/// assert_eq!(entry.message_body(), "order 7");
/// ```
pub fn message(body: impl Into<String>) -> SendMessageBatchRequestEntryBuilder {
    SendMessageBatchRequestEntry::builder()
        .id("0")
        .message_body(body)
}

/// A queue in SQS that messages are delivered to.
///
/// In a FIFO queue, the messages of one message group are sent in their order, each after the one before is settled, since one request can accept the second of two messages and fail the first. Many groups are therefore faster than a few. A message without a deduplication id gets one, unless the queue makes it from the body; it stays the same in every attempt, so that SQS drops repetitions for five minutes.
#[derive(Debug)]
pub struct Queue {
    queue: SqsQueue,
    arn: String,
    limits: Limits,
    fifo: bool,
    deduplicates_by_body: bool,
    /// Two parts of new deduplication ids: one for this queue object, and a counter.
    unique: (u64, u64),
    next: AtomicU64,
}

/// What the service says about a delivered message.
///
/// ```
/// use backstop_deliver::sqs::Receipt;
///
/// fn log(receipt: &Receipt) {
///     println!("delivered as {}", receipt.message_id);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The message's id.
    pub message_id: String,
    /// Its place in its message group.
    pub sequence_number: Option<String>,
}

impl Queue {
    /// Reads the queue's attributes: its kind, and the largest message. Needs `sqs:GetQueueAttributes` and `sqs:SendMessage`.
    pub async fn open(config: &SdkConfig, url: &str) -> Result<Self, OpenError> {
        let queue = Sqs::new(config).queue(url);
        let attributes = queue
            .attributes()
            .await
            .map_err(|error| open_error(url, error.operation, failed(error)))?;
        let is_true = |name| attributes.get(&name).is_some_and(|value| value == "true");
        let description = queue.described(&attributes);
        let most = BATCH_BYTES.min(description.max_message_bytes);
        let state = RandomState::new();
        Ok(Self {
            limits: Limits {
                entries: BATCH_ENTRIES,
                bytes: most,
                entry_bytes: most,
            },
            fifo: description.fifo,
            deduplicates_by_body: is_true(Q::ContentBasedDeduplication),
            arn: description.arn,
            queue,
            unique: (state.hash_one(1), state.hash_one(2)),
            next: AtomicU64::new(0),
        })
    }

    /// Whether it is a FIFO queue.
    pub const fn is_fifo(&self) -> bool {
        self.fifo
    }

    /// The endpoint in place of AWS's own, such as that of an emulator, where another queue may have the same ARN.
    pub fn own_endpoint(&self) -> Option<String> {
        self.queue.endpoint().own().map(str::to_owned)
    }

    /// Whether the queue makes the deduplication id of a message from its body.
    pub const fn deduplicates_by_body(&self) -> bool {
        self.deduplicates_by_body
    }
}

impl Target for Queue {
    type Entry = SendMessageBatchRequestEntry;
    type Receipt = Receipt;

    fn source(&self) -> &str {
        &self.arn
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn size(&self, entry: &Self::Entry) -> usize {
        size(entry)
    }

    fn group(&self, entry: &Self::Entry) -> Option<Group> {
        let group = entry.message_group_id.as_ref().filter(|_| self.fifo);
        group.map(Group::new)
    }

    /// In a FIFO queue: its deduplication id stays the same.
    fn is_repeatable(&self, _: &Self::Entry) -> bool {
        self.fifo
    }

    fn prepare(&self, mut entry: Self::Entry) -> Self::Entry {
        if self.fifo && !self.deduplicates_by_body && entry.message_deduplication_id.is_none() {
            let (first, second) = self.unique;
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let id = format!("{first:016x}{second:016x}-{number}");
            entry.message_deduplication_id = Some(id);
        }
        entry
    }

    async fn send(
        &self,
        entries: &[Self::Entry],
    ) -> Result<Vec<EntryResult<Receipt>>, RequestError> {
        let results = self.queue.send_entries(entries.to_vec()).await;
        let results = results.map_err(|error| request_error(failed(error)))?;
        let results = results.into_iter().map(|result| match result {
            Ok(sent) => EntryResult::Delivered(Receipt {
                message_id: sent.message_id,
                sequence_number: sent.sequence_number,
            }),
            Err(error) => undelivered(error),
        });
        Ok(results.collect())
    }
}

fn failed(error: QueueError) -> FailedRequest {
    FailedRequest {
        code: error.code,
        text: error.message,
        status: error.status,
        meaning: error.meaning,
    }
}

fn undelivered(error: EntryError) -> EntryResult<Receipt> {
    if error.is_unknown() {
        return EntryResult::Unanswered;
    }
    let is_retryable = error.retryable;
    let error = Error::new(error.code, error.message);
    if is_retryable {
        EntryResult::Failed(error)
    } else {
        EntryResult::Rejected(error)
    }
}
