//! Handles one message, or those of one FIFO group in their order: attempt, failure, decide, settle.

use std::collections::{VecDeque, vec_deque};
use std::num::NonZeroU32;
use std::option;
use std::sync::Arc;

use tracing::Instrument;

use super::attempt::{self, Outcome};
use super::breaker::Entered;
use super::controls::{Entry, Turn};
use super::heartbeat::Heartbeat;
use super::requests::{self, hand_back};
use super::{Shared, apply, held_back, spans};
use crate::failure::{Error, Failure, Milliseconds, Timestamp, random};
use crate::policy::Payload;
use crate::queue::{Message, MessageEnvelope};
use crate::record::{LifeEvent, WokenBy};
use backstop_decider::Journey;

/// The messages of a lane that are still to be handled: one, or on a FIFO queue those of a message group in their order.
pub(super) struct Messages {
    first: Option<Arc<Message>>,
    /// Takes no memory of its own while it is empty.
    others: VecDeque<Arc<Message>>,
}

impl Messages {
    pub(super) fn of(first: Arc<Message>) -> Self {
        Self {
            first: Some(first),
            others: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, message: Arc<Message>) {
        self.others.push_back(message);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.first.iter().chain(&self.others)
    }

    /// Whether a message is of their group.
    pub(super) fn is_same_group(&self, message: &Message) -> bool {
        self.iter()
            .next()
            .is_some_and(|first| first.group == message.group)
    }

    fn take(&mut self) -> Option<Arc<Message>> {
        self.first.take().or_else(|| self.others.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }
}

impl IntoIterator for Messages {
    type Item = Arc<Message>;
    type IntoIter = std::iter::Chain<option::IntoIter<Self::Item>, vec_deque::IntoIter<Self::Item>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.others)
    }
}

/// Handles the messages in their order. If a message of a FIFO queue fails and stays in the queue, the messages after it are returned, because they must not overtake it.
///
/// The heartbeat keeps them invisible meanwhile.
pub(super) async fn run(shared: &Arc<Shared>, mut messages: Messages, heartbeat: &Heartbeat) {
    // At the end of a lane, nobody asks whether the consumer stops: that takes a lock.
    while !messages.is_empty()
        && attempts_begin(shared)
        && let Some(message) = messages.take()
    {
        let in_hand = InHand(shared, &message);
        let span = tracing::info_span!(
            "message",
            queue = shared.name,
            id = message.id,
            attempt = shared.history.attempt(&message).get()
        );
        let handled = || receive(shared, &message, heartbeat);
        // A span that nobody records costs time, too.
        let is_removed = if span.is_disabled() {
            handled().await
        } else {
            handled().instrument(span).await
        };
        heartbeat.release(&message).await;
        drop(in_hand);
        if !is_removed && shared.fifo {
            if !messages.is_empty() {
                let behind = messages.iter().count();
                shared.stats.behind.note(&message.id, behind);
            }
            break;
        }
    }
    let mut left = Vec::new();
    for message in messages.iter() {
        let _in_hand = InHand(shared, message);
        heartbeat.release(message).await;
        // By another receive, something is done about it, or was.
        if shared.receipts.is_next(message) {
            left.push(Arc::clone(message));
        }
    }
    if !left.is_empty() {
        Box::pin(hand_back(shared, left)).await;
    }
}

/// Whether attempts begin now.
fn attempts_begin(shared: &Shared) -> bool {
    !shared.gate.is_closed() && !shared.controls.is_paused() && !shared.stop.is_cancelled()
}

/// A receive that is in hand until this is dropped, also by a panic.
struct InHand<'a>(&'a Shared, &'a Message);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.receipts.ended(self.1);
    }
}

/// Handles a received message, unless it is a second copy, not due yet or left over from before it was sent again. Returns whether it has left the queue.
async fn receive(shared: &Arc<Shared>, message: &Arc<Message>, heartbeat: &Heartbeat) -> bool {
    if shared.copies.is_second(message) {
        tracing::info!("the answer to a send was lost, and it was repeated: this copy is deleted");
        shared.stats.duplicates.add(1);
        return requests::delete(shared, message).await;
    }
    let is_left_over = shared.history.is_left_over(message);
    if !is_left_over && !begins(shared, message).await {
        // What is done about the message is done by the receipt handle of its last receive.
        tracing::info!(
            "the message was received twice, because its visibility timeout was over: this receive is not attempted"
        );
        return false;
    }
    let is_removed = if is_left_over {
        tracing::info!("the message was sent again before: this copy is deleted");
        shared.stats.duplicates.add(1);
        requests::delete(shared, message).await
    } else {
        let is_removed = begun(shared, message, heartbeat).await;
        shared.receipts.settled(message);
        is_removed
    };
    if !is_removed {
        shared.copies.release(message);
    }
    is_removed
}

/// Whether this receive of a message is attempted, at once or after an earlier one.
async fn begins(shared: &Shared, message: &Arc<Message>) -> bool {
    if shared.receipts.begins(message) {
        return true;
    }
    if !shared.receipts.follows(message).await {
        return false;
    }
    shared.history.attempted(message);
    let begins = attempts_begin(shared);
    if !begins {
        Box::pin(hand_back(shared, [Arc::clone(message)])).await;
        shared.receipts.settled(message);
    }
    begins
}

/// Handles a message that has its turn. Returns whether it has left the queue.
async fn begun(shared: &Arc<Shared>, message: &Arc<Message>, heartbeat: &Heartbeat) -> bool {
    let in_hand = shared.settler.take(message);
    let woken = |envelope: &MessageEnvelope| {
        let due = shared.waiting.woken(message, envelope)?;
        note_woken(shared, message, envelope, due);
        Some(due)
    };
    if let Some(envelope) = in_hand.early(woken) {
        return Box::pin(apply::hop(shared, message, &envelope, heartbeat)).await;
    }
    shared.waiting.forget(message);
    if shared.history.is_duplicate(message) {
        tracing::info!("another copy of the message made this attempt already");
        shared.stats.duplicates.add(1);
    }
    let each = &shared.controls.each;
    let turn = if each.is_set() {
        Box::pin(each.enter(message, shared.interrupted())).await
    } else {
        Entry::Begins(None)
    };
    let turn = match turn {
        Entry::Begins(turn) => turn,
        Entry::HeldBack(held_back) => {
            Box::pin(held_back::hold_back(shared, message, held_back, heartbeat)).await;
            return false;
        }
        Entry::Interrupted => {
            heartbeat.release(message).await;
            Box::pin(hand_back(shared, [Arc::clone(message)])).await;
            return false;
        }
    };
    match shared.breaker.enter(message) {
        Ok(entered) => handle(shared, message, heartbeat, (entered, turn)).await,
        Err(down) => {
            Box::pin(held_back::hold_back(shared, message, down, heartbeat)).await;
            false
        }
    }
}

/// Records that a message with this envelope comes sooner.
fn note_woken(shared: &Shared, message: &Message, envelope: &MessageEnvelope, due: Timestamp) {
    if due < envelope.due {
        let events = shared.decider.events();
        events.happened(&message.id, message, || LifeEvent::Woken {
            by: WokenBy::Hop,
            due,
            was_due: envelope.due,
            policy: None,
        });
    }
}

/// Handles one message. Returns whether it has left the queue.
///
/// What follows a failure is boxed: its future is large, and ten of these are in memory for each receive.
async fn handle(
    shared: &Arc<Shared>,
    message: &Arc<Message>,
    heartbeat: &Heartbeat,
    (entered, turn): (Entered<'_>, Option<Turn>),
) -> bool {
    // What follows an attempt belongs to its span, too.
    let span = spans::attempt(shared, message);
    let attempt = attempt::run(shared, message, &span);
    let outcome = if shared.gate.is_open() {
        attempt.await
    } else {
        Box::pin(shared.gate.watch(attempt)).await
    };
    // Another attempt of its key may begin while this one is settled.
    drop(turn);
    // By an old receipt handle, nothing can be changed.
    let later = shared.receipts.later(message);
    let message = later.as_ref().unwrap_or(message);
    if let Outcome::Unavailable(error) = &outcome {
        shared.gate.close(error, &shared.handler);
    }
    match outcome {
        Outcome::Succeeded => {
            entered.succeeded();
            span.scope(apply::succeeded(shared, message)).await
        }
        Outcome::Failed(error) => {
            let failed = Box::pin(failed(shared, message, error, heartbeat, entered));
            span.scope(failed).await
        }
        Outcome::Unavailable(_) | Outcome::Interrupted => {
            heartbeat.release(message).await;
            Box::pin(hand_back(shared, [Arc::clone(message)])).await;
            false
        }
    }
}

/// Decides about a failure and applies the decision. Returns whether the message has left the queue.
///
/// The heartbeat keeps the message invisible until the last change of its visibility.
async fn failed(
    shared: &Arc<Shared>,
    message: &Arc<Message>,
    error: Error,
    heartbeat: &Heartbeat,
    entered: Entered<'_>,
) -> bool {
    let journey = journey(shared, message);
    let failure = Arc::new(failure(shared, message, error));
    if !failure.error.is_in_progress() {
        shared.history.failed(message, failure.attempt);
    }
    let payload = Arc::new(Payload::new(Arc::clone(&message.body)));
    let decider = &shared.decider;
    let decide = decider.decide(&failure, payload, journey);
    let decided = backstop_settle::decided(&shared.settler.place, &message.id, decide).await;
    if !failure.error.is_in_progress() {
        entered.failed(&decided.decision, &failure.error);
    }
    apply::apply(shared, message, &failure, &decided, heartbeat).await
}

fn journey(shared: &Shared, message: &Message) -> Journey {
    Journey {
        is_duplicate: shared.history.is_duplicate(message),
        ..shared.settler.journey(message, message.max_delay())
    }
}

/// The failure of an attempt, as the policy receives it.
///
/// Work in progress elsewhere is no attempt. Its failure has the number of attempts that are known to have failed, so that no policy gives the message up for receives.
fn failure(shared: &Shared, message: &Message, error: Error) -> Failure {
    let next = shared.history.attempt(message);
    let attempt = if error.is_in_progress() {
        NonZeroU32::new(shared.history.known_attempts(message)).unwrap_or(NonZeroU32::MIN)
    } else {
        next
    };
    let failed_at = shared.queue.now();
    Failure {
        message_id: message.id.clone(),
        source: shared.settler.source.clone(),
        attempt,
        age: Milliseconds::from_duration(failed_at.since(message.sent)),
        failed_at,
        previous_delay: shared.history.previous_delay(message, next),
        error,
        attributes: message.attribute_texts(),
        random: random(&message.id, attempt),
    }
}
