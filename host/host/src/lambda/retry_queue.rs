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
use crate::config::DeadLetterQueues;
use crate::failure::Milliseconds;
use crate::hold::{HoldSettings, Holds};
use crate::queue::{
    BATCH_BYTES, Connections, Description, Queue, QueueError, Requests, Retry, VisibilityTimeout,
    short_name,
};
use backstop_decider::Events;
use backstop_settle::{Find, Settler};

/// How long a request waits to share a batch with others. All messages of a batch are handled at the same time.
const LINGER: Duration = Duration::from_millis(10);

/// SQS's default retention, used if a queue's is unknown.
const RETENTION: Milliseconds = Milliseconds(4 * 86_400_000);

/// The longest that one lookup of a queue may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The lookups of the retry queue. A batch without its queue is delivered again only after the queue's visibility timeout.
const LOOKUPS: Retry =
    Retry::new(Backoff::milliseconds(100, 2_000)).within(Duration::from_secs(20));

/// A retry queue.
pub(super) struct RetryQueue {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) description: Description,
    pub(super) settler: Settler,
}

/// The retry queues by the ARN of their mapping.
pub(super) struct RetryQueues {
    connections: Arc<Connections>,
    hold: HoldSettings,
    retry_queue: Option<String>,
    dead_letter_queues: DeadLetterQueues,
    requests: Arc<Requests>,
    events: Events,
    opened: Mutex<BTreeMap<String, Arc<RetryQueue>>>,
}

impl RetryQueues {
    pub(super) fn new(
        connections: Arc<Connections>,
        hold: HoldSettings,
        options: &RetryHandlerOptions,
        requests: Arc<Requests>,
        events: &Events,
    ) -> Self {
        Self {
            connections,
            hold,
            retry_queue: options.retry_queue.clone(),
            dead_letter_queues: options.dead_letter_queues.clone(),
            requests,
            events: events.clone(),
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
        let holds = Holds::start(
            self.hold.clone(),
            short_name(arn),
            &queue,
            &description,
            LINGER,
            &self.requests,
        );
        let find = |url| self.find_dead_letters(url, &description);
        let DeadLetterQueues { default, classes } = &self.dead_letter_queues;
        let own = classes.iter();
        let settler = Settler::start(
            (&queue, description.arn.clone()),
            LINGER.into(),
            &self.requests,
            holds,
            find(default.as_ref()),
            own.map(|(class, url)| (class.clone(), find(Some(url)))),
        )
        .heard_by(&self.events);
        Ok(RetryQueue {
            queue,
            description,
            settler,
        })
    }

    fn find_dead_letters(&self, url: Option<&String>, retries: &Description) -> Find {
        let lookup = Arc::new(DeadLetterLookup {
            connections: Arc::clone(&self.connections),
            url: url.cloned(),
            retries: retries.clone(),
        });
        Box::new(move || in_time(Arc::clone(&lookup).find().boxed()).boxed())
    }
}

/// Finds a dead-letter queue of a retry queue.
struct DeadLetterLookup {
    connections: Arc<Connections>,
    /// Its URL, unless it is that of the redrive policy.
    url: Option<String>,
    retries: Description,
}

impl DeadLetterLookup {
    async fn find(self: Arc<Self>) -> Result<Option<(Arc<dyn Queue>, Description)>, QueueError> {
        let retries = &self.retries;
        let queue = match (&self.url, &retries.redrive) {
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
        Ok(Some((queue, description)))
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
                delayed: None,
                access_policy: None,
            })
        }
        described => described,
    }
}
