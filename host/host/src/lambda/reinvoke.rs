//! Invokes an event again, or finds why that is impossible.

use std::time::Duration;

use super::answer::Goes;
use super::message::EVENT_BYTES;
use super::recursion::Chain;
use super::refused::{Refused, refused};
use super::retry_queue::RetryQueue;
use super::{RetryHandler, spans};
use crate::config::UNHINDERED_ATTEMPTS;
use crate::failure::Timestamp;
use crate::queue::{BATCH_BYTES, Message};
use backstop_aws::is_configuration_error;
use backstop_decider::DecidedFailure;
use backstop_functions::{Event, unqualified};
use backstop_settle::InHand;

/// How long an invocation is retried for which the handler has no permission, from when it was due, so that an operator can correct the role. Otherwise a missing permission would dead-letter the whole queue.
const DENIED: Duration = Duration::from_secs(12 * 3_600);

impl RetryHandler {
    /// Why an event cannot be invoked again, as far as that is known before it is due.
    pub(super) async fn obstacle(
        &self,
        queue: &RetryQueue,
        message: &Message,
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
        let size = message.body.len() + grown;
        let most = queue.description.max_message_bytes.min(BATCH_BYTES);
        if size > most {
            return Some(format!(
                "the record of another failure would have {size} bytes: the retry queue accepts at most {most}"
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
    pub(super) async fn invoke(
        &self,
        queue: &RetryQueue,
        in_hand: &InHand<'_>,
        event: &Event,
        next: String,
        decided: DecidedFailure<'_>,
        due: Timestamp,
    ) -> Goes {
        let (function, message) = (&event.record.function, in_hand.message);
        let span = spans::invocation(function);
        let invoked = span.scope(self.functions.invoke(function, next)).await;
        if let Err(error) = &invoked {
            span.fail(&error.code);
        }
        span.end();
        let Err(error) = invoked else {
            tracing::info!(function, "invoke");
            self.metrics.invoked();
            return Goes::Away;
        };
        let now = queue.queue.now();
        let wait = match refused(&error, receives(message), rand::random()) {
            Refused::Transient(wait) => wait,
            Refused::Denied(wait) if now < due.max(message.sent).plus(DENIED) => {
                tracing::error!(function, %error, "the handler can't invoke the function: {}; the event is retried for 12 hours", if is_configuration_error(&error.code) { "correct the settings of this handler" } else { "allow lambda:InvokeFunction on it" });
                wait
            }
            Refused::Denied(_) | Refused::Permanent => {
                tracing::warn!(function, %error, "the function can't be invoked: the event is dead-lettered");
                let reason = format!("{} can't be invoked: {error}", unqualified(function));
                return self.goes(in_hand.dead_letter(&reason, decided).await, decided);
            }
        };
        if now.plus(wait.as_duration()) >= queue.settler.holds.expires(message) {
            tracing::warn!(function, %error, "no invocation succeeded before the end of the retry queue's retention: the event is dead-lettered");
            let reason =
                format!("not invoked before the retry queue's retention was over: {error}");
            return self.goes(in_hand.dead_letter(&reason, decided).await, decided);
        }
        tracing::warn!(function, %error, %wait, "the invocation failed: it is retried");
        Goes::Back(in_hand.hidden_for(wait.as_duration()))
    }
}

/// How often this copy of a message was received.
fn receives(message: &Message) -> u32 {
    let before = message.envelope.as_ref().map_or(0, |it| it.attempts);
    message.receive_count.get().saturating_sub(before)
}
