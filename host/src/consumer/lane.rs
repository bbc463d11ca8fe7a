//! The work on one message, or on those of one FIFO group one after the other, and the heartbeat that keeps them invisible meanwhile.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use futures::future::join_all;
use tokio::task::JoinError;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::Shared;
use crate::decision::{Action, DecidedBy, Decision};
use crate::failure::{Error, Failure, Milliseconds, random};
use crate::handler::{PANIC, TIMEOUT};
use crate::policy::Payload;
use crate::queue::{Message, VisibilityTimeout};

/// What SQS keeps of its 12 hours for the way there and back.
const MARGIN: Milliseconds = Milliseconds(60_000);

/// How an attempt ended.
enum Outcome {
    Done,
    Failed(Error),
    /// The consumer ends before the attempt does.
    Interrupted,
}

/// Works through the messages in their order. After a failure that keeps its message in the queue, those behind it go back: they must not overtake it.
pub(super) async fn run(shared: &Arc<Shared>, mut waiting: VecDeque<Message>) {
    while let Some(message) = waiting.pop_front() {
        if shared.stop.is_cancelled() {
            waiting.push_front(message);
            break;
        }
        let span = tracing::info_span!(
            "message",
            queue = shared.name,
            id = message.id,
            attempt = attempt(shared, &message).get()
        );
        let gone = handle(shared, &message, &waiting).instrument(span).await;
        if !gone && shared.fifo {
            break;
        }
    }
    hand_back(shared, waiting).await;
}

/// One message from attempt to applied decision. Whether it has left the queue.
async fn handle(shared: &Arc<Shared>, message: &Message, waiting: &VecDeque<Message>) -> bool {
    match work(shared, message, waiting).await {
        Outcome::Done => {
            let gone = shared.applier.done(message).await;
            shared.history.forget(message);
            gone
        }
        Outcome::Failed(error) => {
            let failure = failure(shared, message, error);
            let payload = Arc::new(Payload::new(Arc::clone(&message.body)));
            let decided = shared
                .decider
                .decide(failure.clone(), payload, room(shared, message))
                .await;
            let decision = &decided.decision;
            tell(&failure, decision);
            if let DecidedBy::Fallback(_) = decision.decided_by {
                shared.stats.fallbacks.add(1);
            }
            let gone = shared.applier.apply(message, &failure, &decided).await;
            match &decision.action {
                Action::Retry { delay } if !gone => shared.history.waits(message, *delay),
                Action::Retry { .. } | Action::DeadLetter { .. } | Action::Discard { .. } => {
                    shared.history.forget(message)
                }
            }
            gone
        }
        Outcome::Interrupted => {
            hand_back(shared, VecDeque::from([message.clone()])).await;
            false
        }
    }
}

/// The attempt, under a heartbeat for its message and those that wait behind it. The heartbeat has ended when this returns, so that it can't undo the outcome.
async fn work(shared: &Arc<Shared>, message: &Message, waiting: &VecDeque<Message>) -> Outcome {
    let handler = Arc::clone(&shared.handler);
    let given = message.clone();
    // A task of its own: it goes on while the heartbeat waits for SQS, and a panic in it is an outcome.
    let task = tokio::spawn(async move { handler.handle(&given).await }.in_current_span());
    let mut attempt = AbortOnDropHandle::new(task);
    let half = shared.visibility.as_duration() / 2;
    let mut heartbeat = interval_at(Instant::now() + half, half);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let timeout = sleep_until(Instant::now() + shared.options.attempt_timeout);
    tokio::pin!(timeout);
    loop {
        tokio::select! {
            biased;
            ended = &mut attempt => return outcome(ended),
            () = &mut timeout => {
                let most = backstop_backoff::format_duration(Milliseconds::from_duration(shared.options.attempt_timeout).0.into());
                return Outcome::Failed(Error::new(TIMEOUT, format!("no outcome within {most}")));
            }
            () = shared.abort.cancelled() => return Outcome::Interrupted,
            _ = heartbeat.tick() => extend(shared, std::iter::once(message).chain(waiting)).await,
        }
    }
}

fn outcome(ended: Result<Result<(), Error>, JoinError>) -> Outcome {
    match ended {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(error)) => Outcome::Failed(error.within_bounds()),
        Err(ended) => {
            let panic = ended.try_into_panic().ok();
            let text = panic.as_ref().and_then(|panic| {
                panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
            });
            Outcome::Failed(
                Error::new(PANIC, text.unwrap_or("the handler panicked")).within_bounds(),
            )
        }
    }
}

/// Keeps messages invisible for another visibility timeout, as far as SQS's 12 hours from their receive allow.
async fn extend(shared: &Shared, messages: impl Iterator<Item = &Message>) {
    let until = Instant::now() + shared.visibility.as_duration() / 2;
    let extensions = messages.map(|message| async move {
        let left = VisibilityTimeout::rounded_up(room(shared, message).as_duration());
        let timeout = shared.visibility.min(left);
        if timeout == VisibilityTimeout::ZERO {
            return;
        }
        if let Err(error) = shared.applier.hide(message, timeout, until).await {
            tracing::warn!(id = message.id, %error, "a heartbeat failed: the message may be delivered again while it is handled");
        }
    });
    join_all(extensions).await;
}

/// Makes messages visible again at once, unattempted.
async fn hand_back(shared: &Shared, messages: impl IntoIterator<Item = Message>) {
    let until = Instant::now() + shared.visibility.as_duration();
    let returns = messages.into_iter().map(|message| async move {
        shared.history.handed_back(&message);
        shared.stats.handed_back.add(1);
        if let Err(error) = shared.applier.hide(&message, VisibilityTimeout::ZERO, until).await {
            tracing::warn!(id = message.id, %error, "a message could not be handed back: it comes again when its visibility timeout is over");
        }
    });
    join_all(returns).await;
}

/// The attempt that a receive stands for: the receive count, less the receives that were handed back without one.
fn attempt(shared: &Shared, message: &Message) -> NonZeroU32 {
    let unattempted = shared.history.unattempted(message);
    NonZeroU32::new(message.receive_count.get().saturating_sub(unattempted))
        .unwrap_or(NonZeroU32::MIN)
}

fn failure(shared: &Shared, message: &Message, error: Error) -> Failure {
    let attempt = attempt(shared, message);
    let failed_at = shared.clock.now();
    Failure {
        message_id: message.id.clone(),
        source: shared.source.clone(),
        attempt,
        age: Milliseconds::from_duration(failed_at.since(message.sent)),
        failed_at,
        previous_delay: shared.history.previous_delay(message),
        error,
        attributes: message
            .attributes
            .iter()
            .map(|(name, value)| (name.clone(), value.to_text()))
            .collect(),
        random: random(&message.id, attempt),
    }
}

/// The longest delay that SQS allows for this message now: 12 hours from its receive, less a margin.
fn room(shared: &Shared, message: &Message) -> Milliseconds {
    let elapsed = Milliseconds::from_duration(shared.clock.now().since(message.received));
    let most = VisibilityTimeout::MAX.seconds() * 1_000;
    Milliseconds(most.saturating_sub(elapsed.0).saturating_sub(MARGIN.0))
}

fn tell(failure: &Failure, decision: &Decision) {
    let by = match &decision.decided_by {
        DecidedBy::Policy | DecidedBy::Shortened(_) => "policy",
        DecidedBy::Bound(_) => "bound",
        DecidedBy::Fallback(_) => "fallback",
    };
    let (error, class) = (&failure.error.code, &decision.class);
    match &decision.action {
        Action::Retry { delay } => tracing::info!(%error, %class, %delay, by, "retry"),
        Action::DeadLetter { reason } => tracing::warn!(%error, %class, reason, by, "dead-letter"),
        Action::Discard { reason } => tracing::warn!(%error, %class, reason, by, "discard"),
    }
}
