//! The work on one message, or on those of one FIFO group one after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::apply::Disposition;
use super::heartbeat::Heartbeat;
use super::{Shared, held};
use crate::decision::{Action, DecidedBy, Decision};
use crate::failure::{Error, Failure, Milliseconds, random};
use crate::handler::{PANIC, TIMEOUT};
use crate::policy::Payload;
use crate::queue::{Message, VisibilityTimeout};

/// What SQS keeps of its 12 hours for the way there and back.
const MARGIN: Milliseconds = Milliseconds(60_000);

/// For how long a message is tried to be handed back. Past that it comes again by itself.
const HANDING_BACK: Duration = Duration::from_secs(3);

/// How an attempt ended.
enum Outcome {
    Done,
    Failed(Error),
    /// The consumer ends before the attempt does.
    Interrupted,
}

/// Works through the messages in their order. After a failure that keeps its message in the queue, those behind it go back: they must not overtake it.
pub(super) async fn run(shared: &Arc<Shared>, mut waiting: VecDeque<Message>) {
    let Some(first) = waiting.front() else { return };
    let mut heartbeat = Heartbeat::new(shared.visibility, first.received);
    while let Some(message) = waiting.pop_front() {
        if shared.stop.is_cancelled() {
            waiting.push_front(message);
            break;
        }
        let span = tracing::info_span!(
            "message",
            queue = shared.name,
            id = message.id,
            attempt = shared.history.attempt(&message).get()
        );
        let behind: Vec<&Message> = waiting.iter().collect();
        let handled = handle(shared, &message, &behind, &mut heartbeat).instrument(span);
        if !handled.await && shared.fifo {
            break;
        }
    }
    hand_back(shared, waiting).await;
}

/// One message from attempt to applied decision, those behind it kept invisible all the while. Whether it has left the queue.
async fn handle(
    shared: &Arc<Shared>,
    message: &Message,
    behind: &[&Message],
    heartbeat: &mut Heartbeat,
) -> bool {
    let all: Vec<&Message> = std::iter::once(message)
        .chain(behind.iter().copied())
        .collect();
    let error = match heartbeat.during(shared, &all, work(shared, message)).await {
        Outcome::Failed(error) => error,
        Outcome::Done => {
            let done = shared.applier.done(message);
            let gone = heartbeat.during(shared, &all, done).await;
            shared.history.forget(message);
            return gone;
        }
        Outcome::Interrupted => {
            hand_back(shared, [message.clone()]).await;
            return false;
        }
    };
    let failure = failure(shared, message, error);
    shared.history.failed(message);
    let payload = Arc::new(Payload::new(Arc::clone(&message.body)));
    let deciding = shared
        .decider
        .decide(failure.clone(), payload, room(message));
    let decided = heartbeat.during(shared, &all, deciding).await;
    tell(&failure, &decided.decision);
    if let DecidedBy::Fallback(_) = decided.decision.decided_by {
        shared.stats.fallbacks.add(1);
    }
    let left = match &decided.decision.action {
        Action::Retry { delay } => Disposition::Requeued(*delay),
        Action::Discard { .. } => {
            let discarding = shared.applier.discard(message);
            heartbeat.during(shared, &all, discarding).await
        }
        Action::DeadLetter { reason } => {
            let moving = shared
                .applier
                .dead_letter(message, &failure, &decided, reason);
            heartbeat.during(shared, &all, moving).await
        }
    };
    match left {
        Disposition::Removed => {
            shared.history.forget(message);
            true
        }
        Disposition::Unresolved => false,
        Disposition::Refused(letter) => {
            held::hold(shared, message, letter).await;
            false
        }
        Disposition::Requeued(delay) => {
            shared.history.waits(message, delay);
            // The last word on its visibility: no heartbeat for the message itself from here on.
            let retry = shared.applier.retry(message, delay.min(room(message)));
            heartbeat.during(shared, behind, retry).await;
            false
        }
    }
}

/// The attempt: until it ends, its time is over, or the consumer ends.
async fn work(shared: &Arc<Shared>, message: &Message) -> Outcome {
    let handler = Arc::clone(&shared.handler);
    let given = message.clone();
    // A task of its own, so that a panic in it is an outcome like any other.
    let task = tokio::spawn(async move { handler.handle(&given).await }.in_current_span());
    let mut attempt = AbortOnDropHandle::new(task);
    let most = shared.options.attempt_timeout;
    tokio::select! {
        biased;
        ended = &mut attempt => outcome(ended),
        () = sleep(most) => {
            let most = Milliseconds::from_duration(most);
            Outcome::Failed(Error::new(TIMEOUT, format!("no outcome within {most}")))
        }
        () = shared.abort.cancelled() => Outcome::Interrupted,
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

/// Makes messages visible again at once, unattempted.
pub(super) async fn hand_back(shared: &Shared, messages: impl IntoIterator<Item = Message>) {
    if shared.stop.is_cancelled() {
        // The last poll would take it at once.
        shared.received_all.cancelled().await;
    }
    let until = Instant::now() + HANDING_BACK;
    let returns = messages.into_iter().map(|message| async move {
        shared.history.handed_back(&message);
        shared.stats.handed_back.add(1);
        if let Err(error) = shared.applier.hide_now(&message, VisibilityTimeout::ZERO, until).await {
            tracing::warn!(id = message.id, %error, "a message could not be handed back: it comes again when its visibility timeout is over");
        }
    });
    join_all(returns).await;
}

fn failure(shared: &Shared, message: &Message, error: Error) -> Failure {
    let attempt = shared.history.attempt(message);
    let failed_at = shared.queue.now();
    Failure {
        message_id: message.id.clone(),
        source: shared.source.clone(),
        attempt,
        age: Milliseconds::from_duration(failed_at.since(message.sent)),
        failed_at,
        previous_delay: shared.history.previous_delay(message),
        error,
        attributes: message.attribute_texts(),
        random: random(&message.id, attempt),
    }
}

/// The longest delay that SQS allows for this message now: 12 hours from its receive, less a margin.
pub(super) fn room(message: &Message) -> Milliseconds {
    let elapsed = Milliseconds::from_duration(message.received.elapsed());
    let most = VisibilityTimeout::MAX.seconds() * 1_000;
    Milliseconds(most.saturating_sub(elapsed.0).saturating_sub(MARGIN.0))
}

fn tell(failure: &Failure, decision: &Decision) {
    let by = decision.decided_by.as_str();
    let (error, class) = (&failure.error.code, &decision.class);
    let verdict = decision.action.verdict();
    match &decision.action {
        Action::Retry { delay } => tracing::info!(%error, %class, %delay, by, "{verdict}"),
        Action::DeadLetter { reason } | Action::Discard { reason } => {
            tracing::warn!(%error, %class, reason, by, "{verdict}");
        }
    }
}
