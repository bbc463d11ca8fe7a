//! Keeps the messages of a lane invisible while they are handled.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use crate::queue::{Message, SubmitError, VisibilityTimeout};

/// How long one renewal is retried. The next one follows soon.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The heartbeat of one lane. It renews the visibility timeout of the lane's messages after each third of it, counted from the receive.
///
/// A message leaves the heartbeat before the last change of its visibility, so that no renewal overwrites that change.
pub(super) struct Heartbeat {
    /// Locked during a renewal.
    messages: Arc<Mutex<Vec<Arc<Message>>>>,
    _task: AbortOnDropHandle<()>,
}

impl Heartbeat {
    /// Starts to keep these messages invisible. They were received at the same time.
    pub(super) fn start(
        shared: &Arc<Shared>,
        messages: impl IntoIterator<Item = Arc<Message>>,
    ) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let received = messages.first().map_or_else(Instant::now, |m| m.received);
        let messages = Arc::new(Mutex::new(messages));
        let third = shared.visibility.as_duration() / 3;
        let (shared, kept) = (Arc::clone(shared), Arc::clone(&messages));
        let task = tokio::spawn(async move {
            let mut ticks = interval_at(received + third, third);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                renew(&shared, &kept.lock().await).await;
            }
        });
        Self {
            messages,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Stops to keep this message invisible. A renewal under way has ended when this returns.
    pub(super) async fn release(&self, message: &Message) {
        let mut messages = self.messages.lock().await;
        messages.retain(|kept| kept.receipt_handle != message.receipt_handle);
    }

    /// Stops to keep any message invisible. A renewal under way has ended when this returns.
    pub(super) async fn stop(self) {
        self.messages.lock().await.clear();
    }
}

/// Keeps messages invisible for another visibility timeout, as far as SQS's 12 hours from their receive allow.
async fn renew(shared: &Shared, messages: &[Arc<Message>]) {
    let timeout = REQUEST_TIMEOUT.min(shared.visibility.as_duration() / 3);
    let until = Instant::now() + timeout;
    let renewals = messages.iter().map(|message| async move {
        let longest = VisibilityTimeout::rounded_up(message.max_delay().as_duration());
        let timeout = shared.visibility.min(longest);
        if timeout == VisibilityTimeout::ZERO {
            return;
        }
        match shared.applier.change_visibility_now(message, timeout, until).await {
            Ok(()) => {}
            // Deleted in the meantime, or received by another consumer.
            Err(SubmitError::Entry(error)) if !error.retryable => {
                tracing::debug!(id = message.id, %error, "the message no longer belongs to this consumer");
            }
            Err(error) => tracing::warn!(
                id = message.id,
                %error,
                "a heartbeat failed: the message may be delivered again while it is handled"
            ),
        }
    });
    join_all(renewals).await;
}
