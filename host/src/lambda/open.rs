//! The queues of the mappings, each looked at once: where it is, what it holds, where its dead letters go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::Options;
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

/// A retry queue at work.
pub(super) struct Open {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) description: Description,
    /// What dead letters have to fit; none where there is no dead-letter queue.
    pub(super) dead_letters: Option<Description>,
    pub(super) requests: Batched,
}

impl Open {
    /// When the queue drops a message at the earliest, less a margin to receive it in.
    pub(super) fn expires(&self, message: &Message) -> Timestamp {
        let retention = self.description.retention.as_duration();
        message.sent.plus(retention - MARGIN.min(retention / 10))
    }
}

/// The retry queues by the ARN of their mapping.
pub(super) struct OpenQueues {
    connections: Arc<Connections>,
    retry_queue: Option<String>,
    dead_letter_queue: Option<String>,
    requests: Arc<Requests>,
    open: Mutex<BTreeMap<String, Arc<OnceCell<Arc<Open>>>>>,
}

impl OpenQueues {
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
            open: Mutex::default(),
        }
    }

    /// The queue of this ARN. Looked at when it is first asked for; again after a failure.
    pub(super) async fn open(&self, arn: &str) -> Result<Arc<Open>, QueueError> {
        let cell = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(open.entry(arn.to_owned()).or_default())
        };
        let opened = cell.get_or_try_init(|| self.look(arn)).await;
        opened.cloned().inspect_err(
            |error| tracing::error!(queue = arn, %error, "the retry queue can't be looked at"),
        )
    }

    async fn look(&self, arn: &str) -> Result<Arc<Open>, QueueError> {
        let queue = match &self.retry_queue {
            Some(url) if short_name(url) == short_name(arn) => self.connections.by_url(url).await,
            _ => self.connections.by_arn(arn).await?,
        };
        let description = described(queue.as_ref(), arn).await?;
        let dead_letters = match (&self.dead_letter_queue, &description.redrive) {
            (Some(url), _) => Some(self.connections.by_url(url).await),
            (None, Some(redrive)) => Some(self.connections.by_arn(&redrive.dead_letter_arn).await?),
            (None, None) => None,
        };
        let dead = match &dead_letters {
            Some(queue) => Some(described(queue.as_ref(), queue.url()).await?),
            None => None,
        };
        let sends_to = dead_letters.as_ref().unwrap_or(&queue);
        Ok(Arc::new(Open {
            requests: Batched::start(&queue, sends_to, LINGER, &self.requests),
            queue,
            description,
            dead_letters: dead,
        }))
    }
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
                redrive: None,
            })
        }
        described => described,
    }
}
