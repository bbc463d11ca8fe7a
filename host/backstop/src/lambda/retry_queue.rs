//! The retry queues of the event source mappings: their attributes, read once, and their dead-letter queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::backoff::Backoff;
use backstop_core::lock::lock;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::RetryHandlerOptions;
use super::lookup::Lookup;
use crate::config::DeadLetterQueues;
use crate::dead_letter::DeadLetterQueue;
use crate::failure::{Milliseconds, Timestamp};
use crate::hold::{HoldSettings, Holds};
use crate::queue::{
    BATCH_BYTES, Batched, Connections, Description, Message, Queue, QueueError, Requests, Retry,
    VisibilityTimeout, short_name,
};

/// How long a request waits to share a batch with others. All messages of a batch are handled at the same time.
const LINGER: Duration = Duration::from_millis(10);

/// SQS's default retention, used if a queue's is unknown.
const RETENTION: Milliseconds = Milliseconds(4 * 86_400_000);

/// The part of the retention that is reserved for the message to be received, or a tenth of the retention if that is less.
const RETENTION_MARGIN: Duration = Duration::from_secs(15 * 60);

/// The longest that one lookup of a queue may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The lookups of the retry queue. A batch without its queue is delivered again only after the queue's visibility timeout.
const LOOKUPS: Retry =
    Retry::new(Backoff::milliseconds(100, 2_000)).within(Duration::from_secs(20));

/// How long a failed lookup of the dead-letter queue is cached.
const FAILURE_CACHED: Duration = Duration::from_secs(5);

/// The result of looking up a dead-letter queue.
type Found = Result<Option<Arc<DeadLetterQueue>>, QueueError>;

/// A retry queue.
pub(super) struct RetryQueue {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) description: Description,
    /// Deletes and changes of visibility.
    pub(super) requests: Batched,
    pub(super) holds: Holds,
    connections: Arc<Connections>,
    dead_letter_queues: DeadLetterQueues,
    counts: Arc<Requests>,
    dead_letters: Lookup<Found>,
    /// Those of classes with a queue of their own.
    class_dead_letters: BTreeMap<String, Lookup<Found>>,
}

impl RetryQueue {
    /// The dead-letter queue for letters of this class, if there is one. Looked up when it is first needed, and again after a failure, so that other messages do not wait for it.
    pub(super) async fn dead_letter_queue(&self, class: Option<&str>) -> Found {
        let own = class.and_then(|class| self.class_dead_letters.get(class));
        let cached = |found: &Result<_, _>| found.is_err().then_some(FAILURE_CACHED);
        let lookup = async {
            let found = in_time(self.find_dead_letter_queue(class).boxed()).await;
            found.inspect_err(|error| {
                tracing::error!(%error, "the dead-letter queue can't be reached: dead letters stay in the retry queue");
            })
        };
        let cache = own.unwrap_or(&self.dead_letters);
        cache.get(cached, lookup).await
    }

    async fn find_dead_letter_queue(&self, class: Option<&str>) -> Found {
        let retries = &self.description;
        let queue = match (self.dead_letter_queues.of(class), &retries.redrive) {
            (Some(url), _) => self.connections.by_url(url).await,
            (None, Some(redrive)) => self.connections.by_arn(&redrive.dead_letter_arn).await?,
            (None, None) => return Ok(None),
        };
        let description = described(queue.as_ref(), queue.url()).await?;
        if description.arn == retries.arn {
            tracing::error!(
                queue = retries.arn,
                "the retry queue is its own dead-letter queue: dead letters stay in it; configure another"
            );
            return Ok(None);
        }
        let queue = DeadLetterQueue::start(&queue, description, LINGER.into(), &self.counts);
        Ok(Some(Arc::new(queue)))
    }

    /// When the queue drops a message at the earliest, less a margin to receive it in.
    pub(super) fn expires(&self, message: &Message) -> Timestamp {
        message
            .kept_since
            .plus(longest_hold(self.description.retention))
    }
}

/// How long a queue with this retention can hold a record by visibility.
pub(crate) fn longest_hold(retention: Milliseconds) -> Duration {
    let retention = retention.as_duration();
    retention - RETENTION_MARGIN.min(retention / 10)
}

/// The retry queues by the ARN of their mapping.
pub(super) struct RetryQueues {
    connections: Arc<Connections>,
    hold: HoldSettings,
    retry_queue: Option<String>,
    dead_letter_queues: DeadLetterQueues,
    requests: Arc<Requests>,
    opened: Mutex<BTreeMap<String, Arc<RetryQueue>>>,
}

impl RetryQueues {
    pub(super) fn new(
        connections: Arc<Connections>,
        hold: HoldSettings,
        options: &RetryHandlerOptions,
        requests: Arc<Requests>,
    ) -> Self {
        Self {
            connections,
            hold,
            retry_queue: options.retry_queue.clone(),
            dead_letter_queues: options.dead_letter_queues.clone(),
            requests,
            opened: Mutex::default(),
        }
    }

    /// The queue with this ARN. Looked up when it is first needed; transient errors are retried as [`LOOKUPS`] says.
    pub(super) async fn open(&self, arn: &str) -> Result<Arc<RetryQueue>, QueueError> {
        let opened = || lock(&self.opened);
        if let Some(open) = opened().get(arn) {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(self.look_up(arn).await.inspect_err(
            |error| tracing::error!(queue = arn, %error, "the retry queue can't be reached"),
        )?);
        opened().insert(arn.to_owned(), Arc::clone(&open));
        Ok(open)
    }

    async fn look_up(&self, arn: &str) -> Result<RetryQueue, QueueError> {
        let find = || in_time(self.find(arn).boxed());
        let may_repeat = |error: &QueueError| {
            if error.is_retryable() {
                tracing::warn!(queue = arn, %error, "the retry queue can't be reached: the request is retried");
            }
            error.is_retryable()
        };
        LOOKUPS.request(find, may_repeat).await
    }

    async fn find(&self, arn: &str) -> Result<RetryQueue, QueueError> {
        let queue = match &self.retry_queue {
            Some(url) if short_name(url) == short_name(arn) => self.connections.by_url(url).await,
            _ => self.connections.by_arn(arn).await?,
        };
        let description = described(queue.as_ref(), arn).await?;
        Ok(RetryQueue {
            requests: Batched::start(&queue, LINGER.into(), &self.requests),
            holds: Holds::start(
                self.hold.clone(),
                short_name(arn),
                &queue,
                &description,
                LINGER,
                &self.requests,
            ),
            queue,
            description,
            connections: Arc::clone(&self.connections),
            class_dead_letters: self
                .dead_letter_queues
                .classes
                .keys()
                .map(|class| (class.clone(), Lookup::default()))
                .collect(),
            dead_letter_queues: self.dead_letter_queues.clone(),
            counts: Arc::clone(&self.requests),
            dead_letters: Lookup::default(),
        })
    }
}

/// The result of a lookup within [`REQUEST_TIMEOUT`].
async fn in_time<T>(lookup: BoxFuture<'_, Result<T, QueueError>>) -> Result<T, QueueError> {
    timeout(REQUEST_TIMEOUT, lookup).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
        Err(QueueError::new("GetQueueAttributes", "timeout", text))
    })
}

/// A queue's attributes; SQS's defaults if reading them is not allowed.
async fn described(queue: &dyn Queue, arn: &str) -> Result<Description, QueueError> {
    match queue.describe().await {
        Err(error) if error.is_access_denied() => {
            tracing::warn!(queue = arn, %error, "can't read the retry queue's attributes, so a retention of 4 days and messages of up to 1 MiB are assumed: allow sqs:GetQueueAttributes");
            Ok(Description {
                arn: arn.to_owned(),
                fifo: arn.ends_with(".fifo"),
                visibility_timeout: VisibilityTimeout::rounded_up(Duration::from_secs(30)),
                retention: RETENTION,
                max_message_bytes: BATCH_BYTES,
                visible: None,
                in_flight: None,
                redrive: None,
                delay: Milliseconds(0),
                access_policy: None,
            })
        }
        described => described,
    }
}
