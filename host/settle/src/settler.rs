//! Settles the messages of a queue, for the consumer and the Lambda retry handler: applies what was decided about one, up to the last request about the message itself.
//!
//! [`InHand::settle`] and [`InHand::hop`] send the message again, or its dead letter. What they return says which request is left: [`InHand::delete`] or [`InHand::hide`]. Each caller does its own bookkeeping before that one: a heartbeat must not overwrite a hidden message, a history must know of a copy before that is received, and the response to a batch must not name a message that is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::dead_letter::{DeadLetterQueue, DeadLetterQueues, Find};
use crate::failure::Milliseconds;
use crate::hold::Holds;
use crate::queue::{
    Batched, Linger, Message, MessageEnvelope, Outgoing, Queue, Requests, SubmitError,
    VisibilityTimeout,
};
use backstop_decider::{Events, Journey, other_ids};
use backstop_traces::Destination;

/// How long a request is retried, unless the time for its message ends before.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// When to try again to dead-letter a message that stays in its queue.
pub const DEAD_LETTER_RETRY_DELAY: VisibilityTimeout = VisibilityTimeout::from_seconds(30);

/// Settles the messages of one queue.
pub struct Settler {
    pub(crate) queue: Arc<dyn Queue>,
    /// The queue's ARN.
    pub source: String,
    /// The queue, as its spans name it.
    pub place: Destination,
    pub(crate) requests: Batched,
    /// How its messages are held.
    pub holds: Holds,
    pub(crate) dead_letter_queues: DeadLetterQueues,
    events: Option<Events>,
}

/// What became of a message. Of the first three it may be deleted; the others stay in their queue.
pub enum Settled {
    /// The policy discards it.
    Discarded,
    /// Its dead-letter queue has accepted it.
    DeadLettered,
    /// It was sent again.
    SentAgain {
        /// What it carries along.
        envelope: Box<MessageEnvelope>,
        /// When the send began.
        since: Instant,
        /// When it is visible, counted from then.
        hop: Duration,
    },
    /// It is to be hidden for this long until its next attempt.
    Waits(VisibilityTimeout),
    /// There is no dead-letter queue, or it can't be reached: to be tried again after [`DEAD_LETTER_RETRY_DELAY`].
    NoDeadLetterQueue,
    /// Its dead-letter queue did not accept this letter in time.
    Refused(Outgoing, Arc<DeadLetterQueue>),
}

impl Settler {
    /// Starts the batches, in which a request waits for at most `linger`. Dead letters go to the queues of their classes, or to the `default` one.
    pub fn start(
        (queue, source): (&Arc<dyn Queue>, String),
        linger: Linger,
        requests: &Arc<Requests>,
        holds: Holds,
        default: Find,
        classes: impl IntoIterator<Item = (String, Find)>,
    ) -> Self {
        Self {
            requests: Batched::start(queue, linger.clone(), requests),
            queue: Arc::clone(queue),
            place: Destination::queue(queue.url()),
            source,
            holds,
            dead_letter_queues: DeadLetterQueues::new(default, classes, linger, requests),
            events: None,
        }
    }

    /// With who hears what becomes of the messages.
    pub fn heard_by(self, events: &Events) -> Self {
        Self {
            events: Some(events.clone()),
            ..self
        }
    }

    /// Who hears what becomes of the messages.
    pub fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// How a failed message came here, and how it can be held next: for `visibility` by visibility.
    pub fn journey(&self, message: &Message, visibility: Milliseconds) -> Journey {
        let reach = self.holds.reach(message, visibility, self.queue.now());
        Journey {
            hops: message.envelope.as_ref().map_or(0, |it| it.hops),
            ids: other_ids(message),
            ..Journey::direct(reach)
        }
    }

    /// Makes a message invisible for this long from now, or visible if `timeout` is zero. Does not wait to share a request: for heartbeats and returned messages.
    pub async fn change_visibility_now(
        &self,
        message: &Message,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), SubmitError> {
        let handle = &message.receipt_handle;
        self.requests
            .change_visibility_now(handle, timeout, until)
            .await
    }
}

#[cfg(test)]
#[path = "settler_tests.rs"]
mod tests;
