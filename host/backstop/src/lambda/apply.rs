//! Applies what was decided about a message: deletes it, hides it, or moves it to the dead-letter queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::STEP;
use super::retry_queue::RetryQueue;
use crate::dead_letter::{self, Cause, DEAD_LETTER_RETRY_DELAY, Delivery};
use crate::failure::Failure;
use crate::hold;
use crate::queue::{Message, MessageEnvelope, SubmitError, VisibilityTimeout};
use backstop_decider::Decided;
use backstop_functions::Event;

/// How long the requests of one message are retried.
const APPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a message is handled and must not be reported as failed. Set as soon as Lambda has accepted its event or the dead-letter queue its dead letter, whether or not the message could be deleted: the mapping deletes messages that are not reported.
#[derive(Debug, Clone, Default)]
pub(super) struct Handled(Arc<AtomicBool>);

impl Handled {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A message of a batch, and how long its requests are retried.
pub(super) struct Delivered<'a> {
    pub(super) queue: &'a RetryQueue,
    pub(super) message: &'a Message,
    handled: &'a Handled,
    until: Instant,
}

impl<'a> Delivered<'a> {
    /// A message whose requests end before `end`.
    pub(super) fn new(
        queue: &'a RetryQueue,
        message: &'a Message,
        handled: &'a Handled,
        end: Instant,
    ) -> Self {
        Self {
            queue,
            message,
            handled,
            until: end.min(Instant::now() + APPLY_TIMEOUT),
        }
    }

    /// Marks the message as handled and deletes it. The mapping deletes it too, so a failure is only logged.
    pub(super) async fn done(&self) {
        self.handled.set();
        let handle = &self.message.receipt_handle;
        let delete = self.queue.requests.delete(handle, self.until);
        match timeout_at(self.until, delete).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a message could not be deleted: the mapping deletes it")
            }
            Err(_) => {
                tracing::warn!("a message could not be deleted in time: the mapping deletes it")
            }
        }
    }

    /// Delays the message. If that fails, the message is delivered early, which is harmless.
    pub(super) async fn postpone(&self, timeout: VisibilityTimeout) {
        let handle = &self.message.receipt_handle;
        match self
            .queue
            .requests
            .change_visibility(handle, timeout, self.until)
            .await
        {
            Ok(()) => {}
            Err(SubmitError::Entry(error)) if error.message.contains("beyond the limit") => {
                tracing::debug!(%error, "the message is delivered early");
            }
            Err(error) => {
                tracing::warn!(%error, "a message could not be delayed: it is delivered early")
            }
        }
    }

    /// Sends the message again until its envelope's due time, and deletes this copy. If it can't be sent, it is held by visibility, or dead-lettered with this cause's values if the queue would drop it meanwhile.
    pub(super) async fn resend(&self, envelope: &MessageEnvelope, cause: Cause<'_>) {
        let (queue, holds) = (&self.queue.queue, &self.queue.holds);
        let sent = holds.send_again(self.message, envelope, queue.now(), self.until);
        let error = match timeout_at(self.until, sent).await {
            Ok(Ok(_)) => return self.done().await,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        // The send may have been retried for a while.
        let now = queue.now();
        let left = envelope.due.since(now).min(STEP);
        if now.plus(left) >= self.queue.expires(self.message) {
            tracing::error!(%error, "a message could not be sent again before its queue would drop it: it is dead-lettered");
            let reason = &hold::unsendable(&error);
            return self.dead_letter(&Cause { reason, ..cause }).await;
        }
        tracing::warn!(%error, "a message could not be sent again: it is held by visibility");
        self.postpone(VisibilityTimeout::rounded_up(left)).await;
    }

    /// How often this copy of the message was received.
    pub(super) fn receives(&self) -> u32 {
        let before = self.message.envelope.as_ref().map_or(0, |it| it.attempts);
        self.message.receive_count.get().saturating_sub(before)
    }

    /// Moves the message of an event to the dead-letter queue.
    pub(super) async fn dead_letter_event(
        &self,
        event: &Event,
        reason: &str,
        decided: Option<(&Failure, &Decided)>,
    ) {
        let cause = Cause {
            reason,
            id: &event.id,
            first_sent: event.first_failed,
            source: &self.queue.description.arn,
            decided,
        };
        self.dead_letter(&cause).await
    }

    /// Moves the message to the dead-letter queue. It leaves the retry queue once its dead letter is accepted.
    pub(super) async fn dead_letter(&self, cause: &Cause<'_>) {
        let class = cause.class();
        let queue = self.queue.dead_letter_queue(class.as_deref());
        let Ok(Ok(queue)) = timeout_at(self.until, queue).await else {
            tracing::warn!(
                reason = cause.reason,
                "the dead-letter queue can't be reached: the message stays in the retry queue and is tried again later"
            );
            return self.postpone(DEAD_LETTER_RETRY_DELAY).await;
        };
        match dead_letter::deliver(queue.as_ref(), self.message, cause, self.until).await {
            Delivery::Accepted => self.done().await,
            Delivery::NoQueue | Delivery::Refused(..) => {
                self.postpone(DEAD_LETTER_RETRY_DELAY).await
            }
        }
    }
}
