//! The queues of the mappings, each looked at once: where it is, what it holds, where its dead letters go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    opened: Mutex<BTreeMap<String, Arc<Open>>>,
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
            opened: Mutex::default(),
        }
    }

    /// The queue of this ARN. Looked at when it is first asked for, and again as long as something of it can't be looked at.
    pub(super) async fn open(&self, arn: &str) -> Result<Arc<Open>, QueueError> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = opened().get(arn) {
            return Ok(Arc::clone(open));
        }
        let looked = self.look(arn).await;
        let (open, is_whole) = looked.inspect_err(
            |error| tracing::error!(queue = arn, %error, "the retry queue can't be looked at"),
        )?;
        let open = Arc::new(open);
        if is_whole {
            opened().insert(arn.to_owned(), Arc::clone(&open));
        }
        Ok(open)
    }

    /// The queue, and whether its dead-letter queue could be looked at. Retries do not wait for that.
    async fn look(&self, arn: &str) -> Result<(Open, bool), QueueError> {
        let queue = match &self.retry_queue {
            Some(url) if short_name(url) == short_name(arn) => self.connections.by_url(url).await,
            _ => self.connections.by_arn(arn).await?,
        };
        let description = described(queue.as_ref(), arn).await?;
        let dead = self.look_for_dead_letters(&description).await;
        let is_whole = dead.is_ok();
        let dead = dead.unwrap_or_else(|error| {
            tracing::error!(%error, "the dead-letter queue can't be looked at: what is dead stays in the retry queue");
            None
        });
        let sends_to = dead.as_ref().map_or(&queue, |(queue, _)| queue);
        let open = Open {
            requests: Batched::start(&queue, sends_to, LINGER, &self.requests),
            queue,
            description,
            dead_letters: dead.map(|(_, description)| description),
        };
        Ok((open, is_whole))
    }

    async fn look_for_dead_letters(
        &self,
        retries: &Description,
    ) -> Result<Option<(Arc<dyn Queue>, Description)>, QueueError> {
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
        Ok(Some((queue, description)))
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
                in_flight: None,
                redrive: None,
            })
        }
        described => described,
    }
}
