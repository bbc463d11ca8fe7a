//! Sends dead letters. The consumer and the Lambda retry handler share this procedure; they differ in what they do with a message whose dead letter was not accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Cause, dead_letter};
use crate::queue::{
    BatchedSends, Description, Linger, Message, Outgoing, Queue, Requests, SubmitError,
    VisibilityTimeout,
};

/// When to try again to dead-letter a message that stays in its queue.
pub const DEAD_LETTER_RETRY_DELAY: VisibilityTimeout = VisibilityTimeout::from_seconds(30);

/// Where the dead letters of a queue go.
pub struct DeadLetterQueue {
    description: Description,
    sends: BatchedSends,
}

/// The result of sending a dead letter.
pub enum Delivery {
    /// The dead-letter queue has accepted it. The message may be deleted.
    Accepted,
    /// There is no dead-letter queue. The message must stay in its queue.
    NoQueue,
    /// The dead-letter queue did not accept this letter in time. The message must stay in its queue.
    Refused(Outgoing, Arc<DeadLetterQueue>),
}

/// Where the dead letters of each class go.
#[derive(Default)]
pub struct DeadLetterQueues {
    /// The queue of every class that has none of its own.
    pub default: Option<Arc<DeadLetterQueue>>,
    /// The queues of classes.
    pub classes: BTreeMap<String, Arc<DeadLetterQueue>>,
}

impl DeadLetterQueues {
    /// The queue for a dead letter with this cause.
    pub fn of(&self, cause: &Cause<'_>) -> Option<&Arc<DeadLetterQueue>> {
        let own = cause.class().and_then(|class| self.classes.get(&class));
        own.or(self.default.as_ref())
    }
}

impl DeadLetterQueue {
    /// Starts sending to this queue. A letter waits for at most `linger` for others to share its batch.
    pub fn start(
        queue: &Arc<dyn Queue>,
        description: Description,
        linger: Linger,
        requests: &Arc<Requests>,
    ) -> Self {
        Self {
            description,
            sends: BatchedSends::start(queue, linger, requests),
        }
    }

    /// Sends a letter, with retries until `until`.
    pub async fn send(&self, letter: Outgoing, until: Instant) -> Result<(), SubmitError> {
        self.sends.send(letter, until).await
    }
}

/// Makes the dead letter of a message and sends it to `queue`, with retries until `until`. Logs what went wrong.
pub async fn deliver(
    queue: Option<&Arc<DeadLetterQueue>>,
    message: &Message,
    cause: &Cause<'_>,
    until: Instant,
) -> Delivery {
    let Some(queue) = queue else {
        tracing::error!(
            reason = cause.reason,
            "there is no dead-letter queue: the message stays in its queue; set dead-letter-queue, or give the queue a redrive policy"
        );
        return Delivery::NoQueue;
    };
    let letter = dead_letter(message, cause, &queue.description);
    match queue.send(letter.clone(), until).await {
        Ok(()) => Delivery::Accepted,
        Err(error) => {
            tracing::error!(%error, "the dead-letter queue does not accept a message: it stays in its queue and is sent again later");
            Delivery::Refused(letter, Arc::clone(queue))
        }
    }
}
