//! Applies decisions, and does the consumer's own bookkeeping: counts, the history of attempts, the memory of what waits and of copies, and the heartbeat, which a message leaves before it is hidden.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::heartbeat::Heartbeat;
use super::requests::{self, delete, postpone};
use super::{Shared, held};
use crate::decision::{Action, DecidedBy, Hold};
use crate::failure::Failure;
use crate::queue::{Message, MessageEnvelope, VisibilityTimeout};
use backstop_decider::{Decided, DecidedFailure};
use backstop_settle::{DEAD_LETTER_RETRY_DELAY, Settled};

/// Deletes a message after a successful attempt. Returns whether it has left the queue.
pub(super) async fn succeeded(shared: &Shared, message: &Message) -> bool {
    let is_removed = delete(shared, message).await;
    shared.stats.succeeded.add(is_removed.into());
    let attempt = shared.history.attempt(message).get();
    if is_removed {
        shared.stats.measures.succeeded(attempt);
    }
    tracing::debug!("succeeded");
    let events = shared.decider.events();
    events.succeeded(message, attempt, is_removed);
    shared.history.forget(message);
    shared.previous.forget(message);
    is_removed
}

/// Applies the decision on a failure. Returns whether the message has left the queue.
pub(super) async fn apply(
    shared: &Arc<Shared>,
    message: &Message,
    failure: &Failure,
    decided: &Decided,
    heartbeat: &Heartbeat,
) -> bool {
    let decision = &decided.decision;
    if let DecidedBy::Fallback(_) = decision.decided_by {
        shared.stats.fallbacks.add(1);
    }
    let (mut left, mut before) = (Duration::ZERO, None);
    if let Action::Retry { delay } = &decision.action {
        left = delay.as_duration();
        if failure.error.is_in_progress() {
            before = Some(shared.history.attempt(message).get() - 1);
            shared.history.skipped(message);
        } else {
            shared.history.waits(message, *delay);
        }
    }
    if let (DecidedBy::Shortened(_), Hold::Visibility) = (&decision.decided_by, decision.hold) {
        shared.settler.holds.shortened(message);
    }
    let in_hand = shared.settler.take(message);
    let settled = in_hand.settle(failure, decided, left, before).await;
    let decided = Some((failure, decided));
    conclude(shared, message, settled, decided, heartbeat).await
}

/// Sends a message again that comes early. This costs no attempt. Returns whether it has left the queue.
pub(super) async fn hop(
    shared: &Arc<Shared>,
    message: &Message,
    envelope: &MessageEnvelope,
    heartbeat: &Heartbeat,
) -> bool {
    shared.history.skipped(message);
    let settled = shared.settler.take(message).hop(envelope).await;
    if !matches!(settled, Settled::SentAgain { .. } | Settled::Waits(_)) {
        shared.waiting.forget(message);
    }
    conclude(shared, message, settled, None, heartbeat).await
}

/// Notes what became of a message, and makes the last request about it. Returns whether it has left the queue.
async fn conclude(
    shared: &Arc<Shared>,
    message: &Message,
    settled: Settled,
    decided: DecidedFailure<'_>,
    heartbeat: &Heartbeat,
) -> bool {
    let stats = &shared.stats;
    let is_removed = match settled {
        Settled::Discarded => {
            let is_removed = delete(shared, message).await;
            stats.discarded.add(is_removed.into());
            is_removed
        }
        Settled::DeadLettered => {
            stats.dead_lettered(&stats.letter(decided));
            delete(shared, message).await
        }
        Settled::SentAgain {
            envelope,
            since,
            hop,
        } => {
            shared.history.sent_again(message, &envelope);
            let waiting = &shared.waiting;
            waiting.resent(message, &envelope, since, hop, decided);
            stats.retried.add(decided.is_some().into());
            stats.sent_again.add(1);
            return delete(shared, message).await;
        }
        Settled::Waits(timeout) => {
            heartbeat.release(message).await;
            hide(shared, message, timeout, decided).await;
            false
        }
        Settled::NoDeadLetterQueue => {
            heartbeat.release(message).await;
            postpone(shared, message, DEAD_LETTER_RETRY_DELAY).await;
            false
        }
        Settled::Refused(letter, queue) => {
            stats.dead_letters_refused.add(1);
            heartbeat.release(message).await;
            let counted = stats.letter(decided);
            held::hold(shared, message, (letter, counted), queue).await;
            false
        }
    };
    if is_removed {
        shared.history.forget(message);
        shared.previous.forget(message);
    }
    is_removed
}

/// Hides a message until its next attempt.
async fn hide(
    shared: &Shared,
    message: &Message,
    timeout: VisibilityTimeout,
    decided: DecidedFailure<'_>,
) {
    let since = Instant::now();
    let (later, hidden) = requests::hide(shared, message, timeout).await;
    let message = later.as_deref().unwrap_or(message);
    if hidden.is_err() {
        shared.stats.unsettled.add(1);
        return;
    }
    shared.waiting.hidden(message, since, timeout, decided);
    shared.copies.held(message, timeout.as_duration());
    shared.stats.retried.add(decided.is_some().into());
}
