//! Handles one message: record, event, failure, decide; then it is held until it is due, its function is invoked, or it is moved to the dead-letter queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RetryHandler;
use super::apply::{Delivered, Handled};
use super::recursion::Chain;
use super::refused::{Refused, refused};
use super::retry_queue::RetryQueue;
use crate::config::UNHINDERED_ATTEMPTS;
use crate::dead_letter::Cause;
use crate::decision::{Action, Hold, Verdict};
use crate::failure::{Failure, Milliseconds, Timestamp};
use crate::hold;
use crate::policy::Payload;
use crate::queue::{BATCH_BYTES, Message, VisibilityTimeout};
use backstop_aws::is_configuration_error;
use backstop_decider::{Decided, Journey};
use backstop_functions::{Event, InvocationRecord, NoRecord, unqualified};
use backstop_queue::dead_letter::is_redriven;

/// The longest time for which a message is hidden at once. SQS allows 12 hours from the poller's receive; a batch window of 5 minutes and the function's 15 minutes may have passed since.
pub(crate) const STEP: Duration = Duration::from_secs(42_000);

/// How long an invocation is retried for which the handler has no permission, from when it was due, so that an operator can correct the role. Otherwise a missing permission would dead-letter the whole queue.
const DENIED: Duration = Duration::from_secs(12 * 3_600);

/// The largest event that Lambda accepts for an asynchronous invocation, in bytes.
const EVENT_BYTES: usize = 1 << 20;

impl RetryHandler {
    /// Decides about a message and applies the decision.
    pub(super) async fn settle(
        &self,
        queue: &RetryQueue,
        message: &Message,
        handled: &Handled,
        end: Instant,
    ) {
        let delivered = Delivered::new(queue, message, handled, end);
        if let Some(envelope) = &message.envelope
            && let Some(left) = envelope.early_by(queue.queue.now())
        {
            tracing::info!(hops = envelope.hops, left = %Milliseconds::from_duration(left), "hop");
            let cause = Cause {
                reason: "",
                id: &message.id,
                first_sent: message.sent,
                source: &queue.description.arn,
                decided: None,
            };
            if !envelope.is_verified && !queue.holds.sends_again() {
                return delivered
                    .postpone(VisibilityTimeout::rounded_up(left.min(STEP)))
                    .await;
            }
            return delivered.resend(&envelope.hopped(), cause).await;
        }
        let event = match record(message) {
            Ok(record) => Event::of(record),
            Err(reason) => {
                tracing::warn!(%reason, "{}", Verdict::DeadLetter);
                let cause = Cause {
                    reason: &reason.to_string(),
                    id: &message.id,
                    first_sent: message.sent,
                    source: &queue.description.arn,
                    decided: None,
                };
                return delivered.dead_letter(&cause).await;
            }
        };
        let function = &event.record.function;
        if !self
            .options
            .functions
            .allows(function, &queue.description.arn)
        {
            let reason = format!(
                "{function} is not one of the functions that may be invoked: if it should be, add it to functions (BACKSTOP_FUNCTIONS)"
            );
            tracing::warn!(event = event.id, reason, "{}", Verdict::DeadLetter);
            return delivered.dead_letter_event(&event, &reason, None).await;
        }
        if is_redriven(message) {
            tracing::info!(
                event = event.id,
                attempt = event.next_attempt().get(),
                "redriven: invoked at once"
            );
            let next = event.redriven(queue.queue.now());
            if let Some(reason) = self.obstacle(&delivered, &event, &next).await {
                tracing::warn!(event = event.id, reason, "{}", Verdict::DeadLetter);
                return delivered.dead_letter_event(&event, &reason, None).await;
            }
            return self
                .invoke(&delivered, &event, next, None, message.sent)
                .await;
        }
        let failure = event.failure(message.attribute_texts());
        let payload = Arc::new(Payload::new(event.payload()));
        let by_visibility = event.max_delay(queue.expires(message));
        let reach = queue.holds.reach(message, by_visibility, queue.queue.now());
        let journey = Journey {
            hops: message.envelope.as_ref().map_or(0, |it| it.hops),
            ..Journey::direct(reach)
        };
        let decided = self.decider.decide(failure.clone(), payload, journey).await;
        let cause = Some((&failure, &decided));
        let (error, class) = (&failure.error.code, &decided.decision.class);
        let verdict = decided.decision.action.verdict();
        match &decided.decision.action {
            Action::Discard { reason } => {
                tracing::warn!(event = event.id, %error, %class, reason, "{verdict}");
                delivered.done().await;
            }
            Action::DeadLetter { reason } => {
                tracing::warn!(event = event.id, %error, %class, reason, "{verdict}");
                delivered.dead_letter_event(&event, reason, cause).await;
            }
            Action::Retry { delay } => {
                let next = event.retried(*delay, &decided.policy);
                if let Some(reason) = self.obstacle(&delivered, &event, &next).await {
                    tracing::warn!(event = event.id, %error, %class, reason, "{}", Verdict::DeadLetter);
                    return delivered.dead_letter_event(&event, &reason, cause).await;
                }
                let (now, due) = (queue.queue.now(), event.due(*delay));
                if now < due {
                    let wait = due.since(now);
                    let hold = decided.decision.hold;
                    tracing::info!(event = event.id, attempt = event.next_attempt().get(), %error, %class, delay = %delay.whole_seconds(), left = %Milliseconds::from_duration(wait), by = hold.as_str(), "hold");
                    if hold == Hold::Resend {
                        let envelope = hold::after(message, &failure, *delay, &decided);
                        let cause = Cause {
                            reason: "",
                            id: &event.id,
                            first_sent: event.first_failed,
                            source: &queue.description.arn,
                            decided: cause,
                        };
                        return delivered.resend(&envelope, cause).await;
                    }
                    queue.holds.hidden();
                    delivered
                        .postpone(VisibilityTimeout::rounded_up(wait.min(STEP)))
                        .await;
                    return;
                }
                self.invoke(&delivered, &event, next, cause, due).await;
            }
        }
    }

    /// Why an event cannot be invoked again, as far as that is known before it is due.
    async fn obstacle(
        &self,
        delivered: &Delivered<'_>,
        event: &Event,
        next: &str,
    ) -> Option<String> {
        if next.len() > EVENT_BYTES {
            return Some(format!(
                "the event has {} bytes in its envelope: Lambda accepts at most {EVENT_BYTES}",
                next.len()
            ));
        }
        // Lambda would lose the record of the next failure, and with it the event.
        let grown = next.len().saturating_sub(event.record.event.get().len());
        let most = delivered
            .queue
            .description
            .max_message_bytes
            .min(BATCH_BYTES);
        if delivered.message.body.len() + grown > most {
            return Some(format!(
                "the record of another failure would have {} bytes: the retry queue accepts at most {most}",
                delivered.message.body.len() + grown
            ));
        }
        if event.next_attempt() <= UNHINDERED_ATTEMPTS {
            return None;
        }
        let function = &event.record.function;
        (self.chains.of(function).await == Chain::Terminated).then(|| {
            format!(
                "attempt {} would be cut off by recursion detection: set RecursiveLoop to Allow on {}",
                event.next_attempt(),
                unqualified(function)
            )
        })
    }

    /// Invokes the event's function, which was due at `due`. The message leaves the queue once Lambda has accepted the event.
    async fn invoke(
        &self,
        delivered: &Delivered<'_>,
        event: &Event,
        next: String,
        decided: Option<(&Failure, &Decided)>,
        due: Timestamp,
    ) {
        let (function, attempt) = (&event.record.function, event.next_attempt());
        let error = match self.functions.invoke(function, next).await {
            Ok(()) => {
                tracing::info!(
                    event = event.id,
                    function,
                    attempt = attempt.get(),
                    "invoke"
                );
                delivered.done().await;
                return;
            }
            Err(error) => error,
        };
        let tries = delivered.receives();
        let now = delivered.queue.queue.now();
        let wait = match refused(&error, tries, rand::random()) {
            Refused::Transient(wait) => wait,
            Refused::Denied(wait) if now < due.max(delivered.message.sent).plus(DENIED) => {
                tracing::error!(event = event.id, function, %error, "the handler can't invoke the function: {}; the event is retried for 12 hours", if is_configuration_error(&error.code) { "correct the settings of this handler" } else { "allow lambda:InvokeFunction on it" });
                wait
            }
            Refused::Denied(_) | Refused::Permanent => {
                tracing::warn!(event = event.id, function, %error, "the function can't be invoked: the event is dead-lettered");
                let reason = format!("{} can't be invoked: {error}", unqualified(function));
                return delivered.dead_letter_event(event, &reason, decided).await;
            }
        };
        if now.plus(wait.as_duration()) >= delivered.queue.expires(delivered.message) {
            tracing::warn!(event = event.id, function, %error, "no invocation succeeded before the end of the retry queue's retention: the event is dead-lettered");
            let reason =
                format!("not invoked before the retry queue's retention was over: {error}");
            return delivered.dead_letter_event(event, &reason, decided).await;
        }
        tracing::warn!(event = event.id, function, %error, %wait, "the invocation failed: it is retried");
        delivered
            .postpone(VisibilityTimeout::rounded_up(wait.as_duration().min(STEP)))
            .await;
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
