//! Handles one message: record, event, failure, decide; then it waits until it is due, its function is invoked, or it is dead-lettered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::Span;
use tracing::field::display;

use super::answer::{Goes, Handled};
use super::retry_queue::RetryQueue;
use super::{RetryHandler, spans};
use crate::decision::{Action, Verdict};
use crate::failure::Failure;
use crate::policy::Payload;
use crate::queue::Message;
use backstop_decider::{Decided, DecidedFailure};
use backstop_functions::{Event, InvocationRecord, NoRecord};
use backstop_queue::dead_letter::is_redriven;
use backstop_settle::{InHand, Settled};

/// How long the requests of one message are retried.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

impl RetryHandler {
    /// Decides about a message and applies the decision, before `end`.
    pub(super) async fn handle_one(
        &self,
        queue: &RetryQueue,
        message: &Message,
        handled: &Handled,
        end: Instant,
    ) {
        let end = end.min(Instant::now() + REQUEST_TIMEOUT);
        let in_hand = InHand {
            end: Some(end),
            ..queue.settler.take(message)
        };
        if let Some(envelope) = in_hand.early(|_| None) {
            let settled = in_hand.hop(&envelope).await;
            let goes = self.goes(settled, None);
            return self.conclude(goes, &in_hand, handled).await;
        }
        let mut event = record(message).map(Event::of);
        let span = spans::process(queue, message, event.as_mut().ok());
        let inside = async {
            match event {
                Ok(event) => {
                    let in_hand = InHand {
                        id: &event.id,
                        first_sent: event.first_failed,
                        ..in_hand
                    };
                    let goes = self.next(queue, &in_hand, &event).await;
                    self.conclude(goes, &in_hand, handled).await;
                }
                Err(reason) => {
                    let goes = self.give_up(&in_hand, &reason.to_string(), None).await;
                    self.conclude(goes, &in_hand, handled).await;
                }
            }
        };
        span.scope(inside).await;
    }

    /// Makes the last request about a message. If it fails, the mapping deletes the message, or it is delivered early: both are harmless.
    async fn conclude(&self, goes: Goes, in_hand: &InHand<'_>, handled: &Handled) {
        match goes {
            Goes::Away => {
                handled.set();
                let until = in_hand.end.unwrap_or_else(Instant::now);
                if timeout_at(until, in_hand.delete()).await.is_err() {
                    tracing::warn!(
                        "a message could not be deleted in time: the mapping deletes it"
                    );
                }
            }
            Goes::Back(timeout) => {
                self.metrics.hidden();
                let _ = in_hand.hide(timeout).await;
            }
        }
    }

    async fn next(&self, queue: &RetryQueue, in_hand: &InHand<'_>, event: &Event) -> Goes {
        let message = in_hand.message;
        Span::current()
            .record("event", &event.id)
            .record("attempt", event.next_attempt());
        let function = &event.record.function;
        if !self
            .options
            .functions
            .allows(function, &queue.description.arn)
        {
            let reason = format!(
                "{function} is not one of the functions that may be invoked: if it should be, add it to functions (BACKSTOP_FUNCTIONS)"
            );
            return self.give_up(in_hand, &reason, None).await;
        }
        if is_redriven(message) {
            tracing::info!("redriven: invoked at once");
            let next = event.redriven(queue.queue.now());
            return match self.obstacle(queue, message, event, &next).await {
                Some(reason) => self.give_up(in_hand, &reason, None).await,
                None => {
                    self.invoke(queue, in_hand, event, next, None, message.sent)
                        .await
                }
            };
        }
        let failure = Arc::new(event.failure(message.attribute_texts()));
        let payload = Arc::new(Payload::new(event.payload()));
        let by_visibility = event.max_delay(queue.settler.holds.expires(message));
        let journey = queue.settler.journey(message, by_visibility);
        let decide = self.decider.decide(&failure, payload, journey);
        let decided = backstop_settle::decided(&queue.settler.place, in_hand.id, decide).await;
        let now = queue.queue.now();
        self.metrics.decided(message, event, &decided, now);
        self.apply(queue, in_hand, event, &failure, &decided).await
    }

    /// Applies a decision: an event that is to be retried and is due is invoked.
    async fn apply(
        &self,
        queue: &RetryQueue,
        in_hand: &InHand<'_>,
        event: &Event,
        failure: &Failure,
        decided: &Decided,
    ) -> Goes {
        let mut left = Duration::ZERO;
        if let Action::Retry { delay } = &decided.decision.action {
            let with = Some((failure, decided));
            let next = event.retried(*delay, &decided.policy);
            if let Some(reason) = self.obstacle(queue, in_hand.message, event, &next).await {
                return self.give_up(in_hand, &reason, with).await;
            }
            let due = event.due(*delay);
            left = due.since(queue.queue.now());
            if left.is_zero() {
                return self.invoke(queue, in_hand, event, next, with, due).await;
            }
        }
        let settled = in_hand.settle(failure, decided, left, None).await;
        self.goes(settled, Some((failure, decided)))
    }

    /// Dead-letters a message for a reason of the handler's own.
    async fn give_up(
        &self,
        message: &InHand<'_>,
        reason: &str,
        decided: DecidedFailure<'_>,
    ) -> Goes {
        let error = decided.map(|(failure, _)| display(&failure.error.code));
        let class = decided.map(|(_, decided)| display(&decided.decision.class));
        tracing::warn!(error, class, reason, "{}", Verdict::DeadLetter);
        self.goes(message.dead_letter(reason, decided).await, decided)
    }

    /// Counts how a message was settled.
    pub(super) fn goes(&self, settled: Settled, decided: DecidedFailure<'_>) -> Goes {
        self.metrics.settled(&settled, decided);
        settled.into()
    }
}

fn record(message: &Message) -> Result<InvocationRecord, NoRecord> {
    let is_of_function = ["RequestID", "ErrorCode"]
        .iter()
        .all(|name| message.attributes.contains_key(*name));
    match InvocationRecord::parse(&message.body, &message.id, message.sent) {
        Err(NoRecord::Shape(_)) if is_of_function => Err(NoRecord::DeadLetterConfig),
        parsed => parsed,
    }
}
