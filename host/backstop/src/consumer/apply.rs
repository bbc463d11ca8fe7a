//! Carries out what was decided: deletes, hides, dead-letters. Every request is batched, and every entry that may succeed tried again for a minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Ready;
use super::stats::Stats;
use crate::dead_letter::{Cause, dead_letter};
use crate::decider::Decided;
use crate::failure::{Failure, Milliseconds};
use crate::queue::{Batched, Description, GaveUp, Message, Outgoing, VisibilityTimeout};

/// For how long an outcome is tried to be applied. A heartbeat keeps the message invisible meanwhile.
const APPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// When a message comes again that has to be dead-lettered and has nowhere to go.
const NO_QUEUE: VisibilityTimeout = VisibilityTimeout::from_seconds(30);

/// Where a message is after an outcome was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disposition {
    /// No longer in the queue.
    Removed,
    /// In the queue, to be hidden for this long.
    Requeued(Milliseconds),
    /// In the queue although it should not be: it comes again when its visibility timeout is over.
    Unresolved,
    /// In the queue, since the dead-letter queue did not take its dead letter, which is this one.
    Refused(Outgoing),
}

/// The three ways in which a message is acted upon.
pub(super) struct Applier {
    requests: Batched,
    dead_letter_queue: Option<Description>,
    stats: Arc<Stats>,
}

impl Applier {
    pub(super) fn start(ready: &Ready, linger: Duration, stats: Arc<Stats>) -> Self {
        let dead_letter_queue = ready.dead_letters.as_ref();
        let sends_to = dead_letter_queue.map_or(&ready.queue, |(queue, _)| queue);
        Self {
            requests: Batched::start(&ready.queue, sends_to, linger, &stats.requests),
            dead_letter_queue: dead_letter_queue.map(|(_, description)| description.clone()),
            stats,
        }
    }

    /// Deletes a message whose work is done. Whether it is gone.
    pub(super) async fn done(&self, message: &Message) -> bool {
        let gone = self.delete(message).await;
        if gone {
            self.stats.succeeded.add(1);
        }
        gone
    }

    /// Drops a message by a policy's verdict.
    pub(super) async fn discard(&self, message: &Message) -> Disposition {
        if !self.delete(message).await {
            return Disposition::Unresolved;
        }
        self.stats.discarded.add(1);
        Disposition::Removed
    }

    /// Hides a message for this long from now; shows it where that is no time at all.
    pub(super) async fn hide(
        &self,
        message: &Message,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), GaveUp> {
        self.requests
            .hide(&message.receipt_handle, timeout, until)
            .await
    }

    /// The same, without waiting for more requests to go with it: for a heartbeat, and for what is handed back.
    pub(super) async fn hide_now(
        &self,
        message: &Message,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), GaveUp> {
        self.requests
            .hide_now(&message.receipt_handle, timeout, until)
            .await
    }

    /// Hides a message until its next attempt.
    pub(super) async fn retry(&self, message: &Message, delay: Milliseconds) {
        let timeout = VisibilityTimeout::rounded_up(delay.as_duration());
        match self
            .hide(message, timeout, Instant::now() + APPLY_TIMEOUT)
            .await
        {
            Ok(()) => self.stats.retried.add(1),
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::warn!(%error, "a delay could not be set: the message comes again when its visibility timeout is over");
            }
        }
    }

    async fn delete(&self, message: &Message) -> bool {
        let until = Instant::now() + APPLY_TIMEOUT;
        match self.requests.delete(&message.receipt_handle, until).await {
            Ok(()) => true,
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::warn!(%error, "a message could not be deleted: it comes again when its visibility timeout is over");
                false
            }
        }
    }

    /// Sends the message to the dead-letter queue, and deletes it here only once it is taken there.
    pub(super) async fn dead_letter(
        &self,
        message: &Message,
        failure: &Failure,
        decided: &Decided,
        reason: &str,
    ) -> Disposition {
        let Some(queue) = &self.dead_letter_queue else {
            tracing::error!(
                reason,
                "there is no dead-letter queue: the message stays in its queue"
            );
            self.postpone(message, NO_QUEUE).await;
            return Disposition::Unresolved;
        };
        let cause = Cause {
            reason,
            id: &message.id,
            first_sent: message.sent,
            decided: Some((failure, decided)),
        };
        let letter = dead_letter(message, &cause, queue);
        match self.send(message, letter.clone()).await {
            Ok(left) => left,
            Err(error) => {
                tracing::error!(%error, "the dead-letter queue does not take a message: it stays in its queue, and is sent again without another attempt");
                Disposition::Refused(letter)
            }
        }
    }

    /// Sends a dead letter, and deletes the message once it is taken.
    pub(super) async fn send(
        &self,
        message: &Message,
        letter: Outgoing,
    ) -> Result<Disposition, GaveUp> {
        let until = Instant::now() + APPLY_TIMEOUT;
        if let Err(error) = self.requests.send(letter, until).await {
            self.stats.dead_letters_refused.add(1);
            return Err(error);
        }
        self.stats.dead_lettered.add(1);
        Ok(if self.delete(message).await {
            Disposition::Removed
        } else {
            Disposition::Unresolved
        })
    }

    /// Hides a message that is not to be attempted for now, and that is neither retried nor done with.
    ///
    /// Whether it may still be this consumer's: not where SQS no longer takes its receipt handle, since the message was deleted, or received by somebody else.
    pub(super) async fn postpone(&self, message: &Message, timeout: VisibilityTimeout) -> bool {
        let until = Instant::now() + APPLY_TIMEOUT;
        let Err(error) = self.hide(message, timeout, until).await else {
            return true;
        };
        tracing::warn!(%error, "a message could not be hidden: it comes again when its visibility timeout is over");
        !matches!(error, GaveUp::Entry(error) if !error.retryable)
    }
}
