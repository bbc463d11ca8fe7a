//! Carries out what was decided: deletes, hides, dead-letters. Every request is batched, and every entry tried again until the message's time is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Ready;
use super::batcher::{Batcher, Entry, GaveUp, Request};
use super::dead_letter::dead_letter;
use super::stats::Stats;
use crate::decider::Decided;
use crate::decision::Action;
use crate::failure::{Failure, Milliseconds};
use crate::fallback;
use crate::queue::{Description, Message, Outgoing, Queue, ReceiptHandle, VisibilityTimeout};

/// For how long an outcome is tried to be applied. Past the visibility timeout the message may have been received by somebody else.
const PATIENCE: Duration = Duration::from_secs(60);

impl Entry for ReceiptHandle {
    fn size(&self) -> usize {
        self.0.len()
    }
}

impl Entry for (ReceiptHandle, VisibilityTimeout) {
    fn size(&self) -> usize {
        self.0.0.len()
    }
}

impl Entry for Outgoing {
    fn size(&self) -> usize {
        Outgoing::size(self)
    }
}

/// The three ways in which a message is acted upon.
pub(super) struct Applier {
    deletes: Batcher<ReceiptHandle>,
    changes: Batcher<(ReceiptHandle, VisibilityTimeout)>,
    dead_letters: Batcher<Outgoing>,
    dead_letter_queue: Option<Description>,
    stats: Arc<Stats>,
}

impl Applier {
    pub(super) fn start(ready: &Ready, linger: Duration, stats: Arc<Stats>) -> Self {
        let dead_letter_queue = ready.dead_letters.as_ref();
        let sends_to = dead_letter_queue
            .map_or_else(|| Arc::clone(&ready.queue), |(queue, _)| Arc::clone(queue));
        Self {
            deletes: Batcher::start(
                linger,
                deletes(Arc::clone(&ready.queue), Arc::clone(&stats)),
            ),
            changes: Batcher::start(
                linger,
                changes(Arc::clone(&ready.queue), Arc::clone(&stats)),
            ),
            dead_letters: Batcher::start(linger, sends(sends_to, Arc::clone(&stats))),
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

    /// Carries out a decision. Whether the message has left the queue.
    pub(super) async fn apply(
        &self,
        message: &Message,
        failure: &Failure,
        decided: &Decided,
    ) -> bool {
        match &decided.decision.action {
            Action::Retry { delay } => {
                self.retry(message, *delay).await;
                false
            }
            Action::DeadLetter { reason } => {
                let moved = self.dead_letter(message, failure, decided, reason).await;
                if moved {
                    self.stats.dead_lettered.add(1);
                } else {
                    // Not lost: it stays where it is, and this is decided again.
                    self.retry(message, fallback::delay(failure)).await;
                }
                moved
            }
            Action::Discard { .. } => {
                let gone = self.delete(message).await;
                if gone {
                    self.stats.discarded.add(1);
                }
                gone
            }
        }
    }

    /// Hides a message for this long from now; shows it where that is no time at all.
    pub(super) async fn hide(
        &self,
        message: &Message,
        timeout: VisibilityTimeout,
        until: Instant,
    ) -> Result<(), GaveUp> {
        self.changes
            .submit((message.receipt_handle.clone(), timeout), until)
            .await
    }

    async fn retry(&self, message: &Message, delay: Milliseconds) {
        let timeout = VisibilityTimeout::rounded_up(delay.as_duration());
        match self.hide(message, timeout, Instant::now() + PATIENCE).await {
            Ok(()) => self.stats.retried.add(1),
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::warn!(%error, "a delay could not be set: the message comes again when its visibility timeout is over");
            }
        }
    }

    async fn delete(&self, message: &Message) -> bool {
        match self
            .deletes
            .submit(message.receipt_handle.clone(), Instant::now() + PATIENCE)
            .await
        {
            Ok(()) => true,
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::warn!(%error, "a message could not be deleted: it comes again when its visibility timeout is over");
                false
            }
        }
    }

    /// Sends the message to the dead-letter queue, and deletes it here only once that has it.
    async fn dead_letter(
        &self,
        message: &Message,
        failure: &Failure,
        decided: &Decided,
        reason: &str,
    ) -> bool {
        let Some(queue) = &self.dead_letter_queue else {
            tracing::error!(
                reason,
                "there is no dead-letter queue: the message stays in its queue"
            );
            return false;
        };
        let letter = dead_letter(message, failure, decided, reason, queue);
        match self
            .dead_letters
            .submit(letter, Instant::now() + PATIENCE)
            .await
        {
            Ok(()) => self.delete(message).await,
            Err(error) => {
                self.stats.unsettled.add(1);
                tracing::error!(%error, "a message could not be dead-lettered: it stays in its queue");
                false
            }
        }
    }
}

fn deletes(queue: Arc<dyn Queue>, stats: Arc<Stats>) -> Request<ReceiptHandle> {
    Arc::new(move |handles| {
        let queue = Arc::clone(&queue);
        stats.delete_requests.add(1);
        Box::pin(async move { queue.delete(&handles).await })
    })
}

fn changes(
    queue: Arc<dyn Queue>,
    stats: Arc<Stats>,
) -> Request<(ReceiptHandle, VisibilityTimeout)> {
    Arc::new(move |changes| {
        let queue = Arc::clone(&queue);
        stats.visibility_requests.add(1);
        Box::pin(async move { queue.change_visibility(&changes).await })
    })
}

fn sends(queue: Arc<dyn Queue>, stats: Arc<Stats>) -> Request<Outgoing> {
    Arc::new(move |messages| {
        let queue = Arc::clone(&queue);
        stats.send_requests.add(1);
        Box::pin(async move { queue.send(&messages).await })
    })
}
