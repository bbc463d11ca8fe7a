//! The last requests about a message, counted: delete it, make it wait, or hand it back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::Shared;
use crate::queue::{Message, SubmitError, VisibilityTimeout};

/// How long the return of a message is retried. After that it is delivered again when its visibility timeout ends.
const RETURN_TIMEOUT: Duration = Duration::from_secs(3);

/// Deletes a message. Returns whether it has left the queue.
pub(super) async fn delete(shared: &Shared, message: &Message) -> bool {
    let mut is_removed = shared.settler.take(message).delete().await.is_ok();
    // It was received again meanwhile: the receipt handle was an old one.
    if let Some(later) = shared.receipts.later(message) {
        is_removed = shared.settler.take(&later).delete().await.is_ok();
    }
    if !is_removed {
        shared.stats.unsettled.add(1);
    }
    is_removed
}

/// Makes a message invisible for this long from now, as the last thing that is done about it. If it was received again meanwhile, its receipt handle was an old one: returns the receive whose handle counts, too.
pub(super) async fn hide(
    shared: &Shared,
    message: &Message,
    timeout: VisibilityTimeout,
) -> (Option<Arc<Message>>, Result<(), SubmitError>) {
    if timeout == VisibilityTimeout::ZERO {
        // A receive that comes meanwhile is that of the next attempt.
        shared.receipts.returns(message);
        return (None, shared.settler.take(message).hide(timeout).await);
    }
    shared.receipts.settling(message);
    let hidden = shared.settler.take(message).hide(timeout).await;
    match shared.receipts.later(message) {
        Some(later) => {
            let hidden = shared.settler.take(&later).hide(timeout).await;
            (Some(later), hidden)
        }
        None => (None, hidden),
    }
}

/// Delays a message without an outcome.
pub(super) async fn postpone(shared: &Shared, message: &Message, timeout: VisibilityTimeout) {
    if keep_invisible(shared, message, timeout).await {
        shared.copies.held(message, timeout.as_duration());
    }
}

/// Makes a message invisible for this long from now.
///
/// Returns whether it may still be this consumer's. It is not if SQS rejects its receipt handle: the message was deleted, or received by another consumer.
pub(super) async fn keep_invisible(
    shared: &Shared,
    message: &Message,
    timeout: VisibilityTimeout,
) -> bool {
    match hide(shared, message, timeout).await.1 {
        Err(SubmitError::Entry(error)) => error.retryable,
        Err(SubmitError::Request(_) | SubmitError::Ended) | Ok(()) => true,
    }
}

/// Returns messages to the queue without an attempt: they are visible at once.
pub(super) async fn hand_back(shared: &Shared, messages: impl IntoIterator<Item = Arc<Message>>) {
    if shared.stop.is_cancelled() {
        // The last poll would receive them again.
        shared.received_all.cancelled().await;
    }
    let until = Instant::now() + RETURN_TIMEOUT;
    let returns = messages.into_iter().map(|message| async move {
        shared.history.handed_back(&message);
        shared.stats.handed_back.add(1);
        let visible = VisibilityTimeout::ZERO;
        shared.receipts.returns(&message);
        if let Err(error) = shared.settler.change_visibility_now(&message, visible, until).await {
            tracing::warn!(id = message.id, %error, "a message could not be returned to the queue: it is delivered again when its visibility timeout ends");
        }
    });
    join_all(returns).await;
}
