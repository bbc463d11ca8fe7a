//! Keeps the messages of a receive invisible while they are handled.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use crate::queue::{Message, SubmitError, VisibilityTimeout};

/// How long one renewal is retried. The next one follows soon.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The heartbeat of one receive. It renews the visibility timeout of its messages after each third of it, counted from the receive.
///
/// A message leaves the heartbeat before the last change of its visibility, so that no renewal overwrites that change.
pub(super) struct Heartbeat {
    messages: Arc<[Kept]>,
    _task: AbortOnDropHandle<()>,
}

/// A message that is kept invisible until it is released.
struct Kept {
    identity: Weak<Message>,
    /// Locked during its renewal. `None` once it is released.
    message: Mutex<Option<Arc<Message>>>,
}

impl Heartbeat {
    /// Starts to keep these messages invisible. They were received at the same time.
    pub(super) fn start<'a>(
        shared: &Arc<Shared>,
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
    ) -> Self {
        let mut received = None;
        let messages = messages.into_iter().map(|message| {
            received.get_or_insert(message.received);
            Kept {
                identity: Arc::downgrade(message),
                message: Mutex::new(Some(Arc::clone(message))),
            }
        });
        let messages: Arc<[Kept]> = messages.collect();
        let received = received.unwrap_or_else(Instant::now);
        let third = shared.visibility.as_duration() / 3;
        let (shared, kept) = (Arc::clone(shared), Arc::clone(&messages));
        let task = tokio::spawn(async move {
            let mut ticks = interval_at(received + third, third);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let until = Instant::now() + REQUEST_TIMEOUT.min(third);
                join_all(kept.iter().map(|kept| kept.renew(&shared, until))).await;
            }
        });
        Self {
            messages,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Stops to keep this message invisible. A renewal of it under way has ended when this returns.
    pub(super) async fn release(&self, message: &Message) {
        let is_it = |kept: &&Kept| std::ptr::eq(kept.identity.as_ptr(), message);
        if let Some(kept) = self.messages.iter().find(is_it) {
            kept.message.lock().await.take();
        }
    }
}

impl Kept {
    /// Keeps the message invisible for another visibility timeout, as far as SQS's 12 hours from its receive allow.
    async fn renew(&self, shared: &Shared, until: Instant) {
        let message = self.message.lock().await;
        let Some(message) = &*message else {
            return;
        };
        let longest = VisibilityTimeout::rounded_up(message.max_delay().as_duration());
        let timeout = shared.visibility.min(longest);
        if timeout == VisibilityTimeout::ZERO {
            return;
        }
        match shared
            .applier
            .change_visibility_now(message, timeout, until)
            .await
        {
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
    }
}
