//! Applies decisions: hides, deletes or dead-letters a message. Requests are batched, and each is retried for a minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::heartbeat::Heartbeat;
use super::stats::Stats;
use super::{Ready, Shared, held};
use crate::dead_letter::{
    self, Cause, DEAD_LETTER_RETRY_DELAY, DeadLetterQueue, DeadLetterQueues, Delivery,
};
use crate::decision::{Action, DecidedBy, Hold};
use crate::failure::{Failure, Milliseconds};
use crate::hold;
use crate::queue::{
    Batched, Description, Linger, Message, MessageEnvelope, Outgoing, Requests, SubmitError,
    VisibilityTimeout,
};
use backstop_decider::Decided;

/// How long each request is retried. The heartbeat keeps the message invisible meanwhile.
const APPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// The requests of one queue.
pub(super) struct Applier {
    requests: Batched,
    dead_letter_queues: DeadLetterQueues,
    stats: Arc<Stats>,
}

impl Applier {
    pub(super) fn start(ready: &Ready, linger: &Linger, stats: Arc<Stats>) -> Self {
        let requests: &Arc<Requests> = &stats.requests;
        let start = |(queue, description): &(_, Description)| {
            let description = description.clone();
            Arc::new(DeadLetterQueue::start(
                queue,
                description,
                linger.clone(),
                requests,
            ))
        };
        let classes = ready.class_dead_letters.iter();
        let dead_letter_queues = DeadLetterQueues {
            default: ready.dead_letters.as_ref().map(start),
            classes: classes
                .map(|(class, queue)| (class.clone(), start(queue)))
                .collect(),
        };
        Self {
            requests: Batched::start(&ready.queue, linger.clone(), requests),
            dead_letter_queues,
            stats,
        }
    }

    /// Deletes a message after a successful attempt. Returns whether it has left the queue.
    pub(super) async fn succeeded(&self, shared: &Shared, message: &Message) -> bool {
        let is_removed = self.delete(message).await;
        if is_removed {
            self.stats.succeeded.add(1);
        }
        shared.history.forget(message);
        is_removed
    }

    /// Applies the decision on a failure. Returns whether the message has left the queue.
    pub(super) async fn apply(
        &self,
        shared: &Arc<Shared>,
        message: &Arc<Message>,
        failure: &Failure,
        decided: &Decided,
        heartbeat: &Heartbeat,
    ) -> bool {
        if let DecidedBy::Fallback(_) = decided.decision.decided_by {
            self.stats.fallbacks.add(1);
        }
        let is_removed = match &decided.decision.action {
            Action::Retry { delay } => {
                let before = shared.history.attempt(message).get() - 1;
                let is_attempt = !failure.error.is_in_progress();
                if is_attempt {
                    shared.history.waits(message, *delay);
                } else {
                    shared.history.skipped(message);
                }
                match decided.decision.hold {
                    Hold::Visibility => {
                        if let DecidedBy::Shortened(_) = decided.decision.decided_by {
                            shared.holds.shortened(message);
                        }
                        heartbeat.release(message).await;
                        let decided = Some((failure, decided));
                        if self.hide(shared, message, *delay, decided).await {
                            self.stats.retried.add(1);
                        }
                        false
                    }
                    Hold::Resend => {
                        let envelope = hold::after(message, failure, *delay, decided);
                        let envelope = if is_attempt {
                            envelope
                        } else {
                            envelope.without_attempt(before, failure.previous_delay)
                        };
                        let decided = Some((failure, decided));
                        let resent = self.resend(shared, message, &envelope, decided, heartbeat);
                        return resent.await;
                    }
                }
            }
            Action::Discard { .. } => self.discard(message).await,
            Action::DeadLetter { reason } => {
                let cause = Cause {
                    reason,
                    id: &message.id,
                    first_sent: message.sent,
                    source: &shared.source,
                    decided: Some((failure, decided)),
                };
                self.dead_letter(shared, message, &cause, heartbeat).await
            }
        };
        if is_removed {
            shared.history.forget(message);
        }
        is_removed
    }

    /// Sends a message again that comes before its envelope says that it is due, because SQS delays a message for 15 minutes at most. On a queue whose messages are not sent again, one whose envelope no key verifies is held by visibility. This costs no attempt. Returns whether it has left the queue.
    pub(super) async fn hop(
        &self,
        shared: &Arc<Shared>,
        message: &Arc<Message>,
        envelope: &MessageEnvelope,
        heartbeat: &Heartbeat,
    ) -> bool {
        shared.history.skipped(message);
        if !envelope.is_verified && !shared.holds.sends_again() {
            let left = envelope.due.since(shared.queue.now());
            let left = Milliseconds::from_duration(left).min(message.max_delay());
            heartbeat.release(message).await;
            self.hide(shared, message, left, None).await;
            return false;
        }
        self.resend(shared, message, &envelope.hopped(), None, heartbeat)
            .await
    }

    /// Sends a message again, and deletes this copy. If it can't be sent it is held by visibility, or dead-lettered if the queue would drop it meanwhile. Returns whether this copy has left the queue.
    async fn resend(
        &self,
        shared: &Arc<Shared>,
        message: &Arc<Message>,
        envelope: &MessageEnvelope,
        decided: Option<(&Failure, &Decided)>,
        heartbeat: &Heartbeat,
    ) -> bool {
        let (now, until) = (shared.queue.now(), Instant::now() + APPLY_TIMEOUT);
        let since = Instant::now();
        let sent = shared.holds.send_again(message, envelope, now, until).await;
        if let Err(error) = &sent {
            // The send may have been retried for a while.
            let now = shared.queue.now();
            let left = Milliseconds::from_duration(envelope.due.since(now));
            let left = left.min(message.max_delay());
            if !shared.holds.keeps(message, now, left) {
                tracing::error!(%error, "a message could not be sent again before its queue would drop it: it is dead-lettered");
                shared.waiting.forget(message);
                let cause = Cause {
                    reason: &hold::unsendable(error),
                    id: &message.id,
                    first_sent: message.sent,
                    source: &shared.source,
                    decided,
                };
                return self.dead_letter(shared, message, &cause, heartbeat).await;
            }
            tracing::warn!(%error, "a message could not be sent again: it is held by visibility");
            heartbeat.release(message).await;
            if self.hide(shared, message, left, decided).await && envelope.hops == 0 {
                self.stats.retried.add(1);
            }
            return false;
        }
        shared.history.sent_again(message, envelope);
        if let Ok(hop) = sent {
            shared
                .waiting
                .resent(message, envelope, since, hop, decided);
        }
        if envelope.hops == 0 {
            self.stats.retried.add(1);
        }
        self.stats.sent_again.add(1);
        self.delete(message).await
    }

    /// Delays a message until its next attempt. Returns whether that succeeded.
    async fn hide(
        &self,
        shared: &Shared,
        message: &Message,
        delay: Milliseconds,
        decided: Option<(&Failure, &Decided)>,
    ) -> bool {
        shared.holds.hidden();
        let timeout = VisibilityTimeout::rounded_up(delay.as_duration());
        let since = Instant::now();
        match self.change_visibility(message, timeout).await {
            Ok(()) => {
                shared.waiting.hidden(message, since, timeout, decided);
                shared.copies.held(message, timeout.as_duration());
                true
            }
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::warn!(%error, "a delay could not be set: the message is delivered again when its visibility timeout ends");
                false
            }
        }
    }

    /// Deletes a message that the policy discards.
    async fn discard(&self, message: &Message) -> bool {
        let is_removed = self.delete(message).await;
        if is_removed {
            self.stats.discarded.add(1);
        }
        is_removed
    }

    /// Sends a message to the dead-letter queue, and deletes it once it is accepted there.
    async fn dead_letter(
        &self,
        shared: &Arc<Shared>,
        message: &Arc<Message>,
        cause: &Cause<'_>,
        heartbeat: &Heartbeat,
    ) -> bool {
        let until = Instant::now() + APPLY_TIMEOUT;
        let queue = self.dead_letter_queues.of(cause);
        match dead_letter::deliver(queue, message, cause, until).await {
            Delivery::Accepted => {
                self.stats.dead_lettered.add(1);
                self.delete(message).await
            }
            Delivery::NoQueue => {
                heartbeat.release(message).await;
                if self.postpone(message, DEAD_LETTER_RETRY_DELAY).await {
                    let invisible = DEAD_LETTER_RETRY_DELAY.as_duration();
                    shared.copies.held(message, invisible);
                }
                false
            }
            Delivery::Refused(letter, queue) => {
                self.stats.dead_letters_refused.add(1);
                heartbeat.release(message).await;
                held::hold(shared, message, letter, queue).await;
                false
            }
        }
    }

    /// Sends a refused dead letter again, and deletes the message once it is accepted.
    pub(super) async fn send_again(
        &self,
        message: &Message,
        letter: Outgoing,
        queue: &DeadLetterQueue,
    ) -> Result<(), SubmitError> {
        let until = Instant::now() + APPLY_TIMEOUT;
        if let Err(error) = queue.send(letter, until).await {
            self.stats.dead_letters_refused.add(1);
            return Err(error);
        }
        self.stats.dead_lettered.add(1);
        self.delete(message).await;
        Ok(())
    }

    pub(super) async fn delete(&self, message: &Message) -> bool {
        let until = Instant::now() + APPLY_TIMEOUT;
        match self.requests.delete(&message.receipt_handle, until).await {
            Ok(()) => true,
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::warn!(%error, "a message could not be deleted: it is delivered again when its visibility timeout ends");
                false
            }
        }
    }

    /// Delays a message without an outcome.
    ///
    /// Returns whether it may still be this consumer's. It is not if SQS rejects its receipt handle: the message was deleted, or received by another consumer.
    pub(super) async fn postpone(&self, message: &Message, timeout: VisibilityTimeout) -> bool {
        let Err(error) = self.change_visibility(message, timeout).await else {
            return true;
        };
        tracing::warn!(%error, "a message could not be delayed: it is delivered again when its visibility timeout ends");
        !matches!(error, SubmitError::Entry(error) if !error.retryable)
    }

    async fn change_visibility(
        &self,
        message: &Message,
        timeout: VisibilityTimeout,
    ) -> Result<(), SubmitError> {
        let until = Instant::now() + APPLY_TIMEOUT;
        self.requests
            .change_visibility(&message.receipt_handle, timeout, until)
            .await
    }

    /// Makes a message invisible for this long from now, or visible if `timeout` is zero. Does not wait to share a request: for heartbeats and returned messages.
    pub(super) async fn change_visibility_now(
        &self,
        message: &Message,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), SubmitError> {
        self.requests
            .change_visibility_now(&message.receipt_handle, timeout, until)
            .await
    }
}
