//! The queues of the mappings, each looked at once: where it is, what it holds, where its dead letters go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_backoff::jitter;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

use super::Options;
use super::lookup::Lookup;
use crate::failure::{Milliseconds, Timestamp};
use crate::queue::{
    BATCH_BYTES, Batched, Connections, Description, Message, Queue, QueueError, Requests,
    VisibilityTimeout, short_name,
};

/// How long a request waits for others of its batch to go with it. All of a batch are worked on at once.
const LINGER: Duration = Duration::from_millis(10);

/// SQS's own retention where a queue's is not known.
const RETENTION: Milliseconds = Milliseconds(4 * 86_400_000);

/// What is kept of the retention for the message to be received in, or a tenth of it where that is less.
const MARGIN: Duration = Duration::from_secs(15 * 60);

/// The longest that one look at a queue may take.
const LOOK: Duration = Duration::from_secs(5);

/// For how long a look at the retry queue is tried again: a batch that can't be begun comes again only after the queue's visibility timeout.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The waits between two tries: the first, and the longest, in milliseconds.
const BASE: u32 = 100;
const CAP: u32 = 2_000;

/// For how long it holds that the dead-letter queue can't be looked at.
const AGAIN: Duration = Duration::from_secs(5);

/// A retry queue at work.
pub(super) struct RetryQueue {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) description: Description,
    /// Deletes and changes of visibility.
    pub(super) requests: Batched,
    connections: Arc<Connections>,
    dead_letter_queue: Option<String>,
    counts: Arc<Requests>,
    dead_letters: Lookup<Result<Option<Arc<DeadLetters>>, QueueError>>,
}

/// Where dead letters go.
pub(super) struct DeadLetters {
    /// What they have to fit.
    pub(super) description: Description,
    pub(super) requests: Batched,
}

impl RetryQueue {
    /// Where dead letters go; none where there is no such queue. Looked at when it is first asked for, and again as long as it can't be looked at: what needs no dead-letter queue does not wait for one.
    pub(super) async fn dead_letters(&self) -> Result<Option<Arc<DeadLetters>>, QueueError> {
        let holds = |looked: &Result<_, _>| looked.is_err().then_some(AGAIN);
        let look = async {
            let looked = in_time(self.look_for_dead_letters().boxed()).await;
            looked.inspect_err(|error| {
                tracing::error!(%error, "the dead-letter queue can't be looked at: what is dead stays in the retry queue");
            })
        };
        self.dead_letters.get(holds, look).await
    }

    async fn look_for_dead_letters(&self) -> Result<Option<Arc<DeadLetters>>, QueueError> {
        let retries = &self.description;
        let queue = match (&self.dead_letter_queue, &retries.redrive) {
            (Some(url), _) => self.connections.by_url(url).await,
            (None, Some(redrive)) => self.connections.by_arn(&redrive.dead_letter_arn).await?,
            (None, None) => return Ok(None),
        };
        let description = described(queue.as_ref(), queue.url()).await?;
        if description.arn == retries.arn {
            tracing::error!(
                queue = retries.arn,
                "the retry queue is its own dead-letter queue: what is dead stays where it is; name another"
            );
            return Ok(None);
        }
        Ok(Some(Arc::new(DeadLetters {
            description,
            requests: Batched::start(&queue, &queue, LINGER, &self.counts),
        })))
    }

    /// When the queue drops a message at the earliest, less a margin to receive it in.
    pub(super) fn expires(&self, message: &Message) -> Timestamp {
        let retention = self.description.retention.as_duration();
        message.sent.plus(retention - MARGIN.min(retention / 10))
    }
}

/// The retry queues by the ARN of their mapping.
pub(super) struct RetryQueues {
    connections: Arc<Connections>,
    retry_queue: Option<String>,
    dead_letter_queue: Option<String>,
    requests: Arc<Requests>,
    opened: Mutex<BTreeMap<String, Arc<RetryQueue>>>,
}

impl RetryQueues {
    pub(super) fn new(
        connections: Arc<Connections>,
        options: &Options,
        requests: Arc<Requests>,
    ) -> Self {
        Self {
            connections,
            retry_queue: options.retry_queue.clone(),
            dead_letter_queue: options.dead_letter_queue.clone(),
            requests,
            opened: Mutex::default(),
        }
    }

    /// The queue of this ARN. Looked at when it is first asked for; what may pass is tried again for [`LOOKUP_TIMEOUT`].
    pub(super) async fn open(&self, arn: &str) -> Result<Arc<RetryQueue>, QueueError> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = opened().get(arn) {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(self.looked(arn).await.inspect_err(
            |error| tracing::error!(queue = arn, %error, "the retry queue can't be looked at"),
        )?);
        opened().insert(arn.to_owned(), Arc::clone(&open));
        Ok(open)
    }

    async fn looked(&self, arn: &str) -> Result<RetryQueue, QueueError> {
        let end = Instant::now() + LOOKUP_TIMEOUT;
        let mut tried = 0;
        loop {
            let error = match in_time(self.look(arn).boxed()).await {
                Ok(open) => return Ok(open),
                Err(error) => error,
            };
            tried += 1;
            let ceiling = jitter::exponential(BASE, CAP, tried);
            let wait = jitter::full(BASE / 2, ceiling, rand::random());
            let wait = Duration::from_millis(wait.into());
            if !error.retryable || Instant::now() + wait >= end {
                return Err(error);
            }
            tracing::warn!(queue = arn, %error, "the retry queue can't be looked at: tried again");
            sleep(wait).await;
        }
    }

    async fn look(&self, arn: &str) -> Result<RetryQueue, QueueError> {
        let queue = match &self.retry_queue {
            Some(url) if short_name(url) == short_name(arn) => self.connections.by_url(url).await,
            _ => self.connections.by_arn(arn).await?,
        };
        let description = described(queue.as_ref(), arn).await?;
        Ok(RetryQueue {
            requests: Batched::start(&queue, &queue, LINGER, &self.requests),
            queue,
            description,
            connections: Arc::clone(&self.connections),
            dead_letter_queue: self.dead_letter_queue.clone(),
            counts: Arc::clone(&self.requests),
            dead_letters: Lookup::default(),
        })
    }
}

/// What a look at a queue comes to within [`LOOK`].
async fn in_time<T>(look: BoxFuture<'_, Result<T, QueueError>>) -> Result<T, QueueError> {
    timeout(LOOK, look).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", LOOK.as_secs());
        Err(QueueError::new("GetQueueAttributes", "timeout", text))
    })
}

/// What a queue says of itself; SQS's defaults where it may not be asked.
async fn described(queue: &dyn Queue, arn: &str) -> Result<Description, QueueError> {
    match queue.describe().await {
        Err(error) if error.is_access_denied() => {
            tracing::warn!(queue = arn, %error, "allow sqs:GetQueueAttributes: a retention of 4 days and messages of up to 1 MiB are assumed");
            Ok(Description {
                arn: arn.to_owned(),
                fifo: arn.ends_with(".fifo"),
                visibility_timeout: VisibilityTimeout::rounded_up(Duration::from_secs(30)),
                retention: RETENTION,
                max_message_bytes: BATCH_BYTES,
                in_flight: None,
                redrive: None,
            })
        }
        described => described,
    }
}
