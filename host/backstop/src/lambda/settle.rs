//! What becomes of one message: held until its time, its event invoked again, or moved to the dead-letter queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::event::Event;
use super::invoke::Refused;
use super::record::{NoRecord, Record};
use super::recursion::Chain;
use super::retry_queue::RetryQueue;
use super::{RetryHandler, invoke};
use crate::config::UNHINDERED_ATTEMPTS;
use crate::dead_letter::{Cause, dead_letter, is_redriven};
use crate::decider::Decided;
use crate::decision::Action;
use crate::failure::{Failure, Milliseconds, Timestamp};
use crate::function_name::unqualified;
use crate::policy::Payload;
use crate::queue::{BATCH_BYTES, GaveUp, Message, VisibilityTimeout};
use backstop_aws::is_of_host;

/// The longest that a message is hidden for at a time. SQS allows 12 hours from the receive by the poller: a batch window of 5 minutes and a function's 15 minutes may have gone by since.
pub(crate) const STEP: Duration = Duration::from_secs(42_000);

/// For how long a request is tried at most.
const APPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// When a message is tried again whose dead letter was not taken.
const DEAD_LETTER_RETRY_DELAY: VisibilityTimeout = VisibilityTimeout::from_seconds(30);

/// For how long an invocation is tried again that the handler may not make, from when it was due: until somebody has mended the role. A queue that is full of retries is not emptied into the dead letters meanwhile.
const DENIED: Duration = Duration::from_secs(12 * 3_600);

/// The largest event that Lambda takes for an asynchronous invocation, in bytes.
const EVENT_BYTES: usize = 1 << 20;

/// Whether a message is done with: not to be reported. Set as soon as its event was taken or its dead letter was, whatever becomes of the delete: the mapping deletes what is not reported.
#[derive(Debug, Clone, Default)]
pub(super) struct Gone(Arc<AtomicBool>);

impl Gone {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The message that is settled, and until when requests for it are tried.
struct Case<'a> {
    open: &'a RetryQueue,
    message: &'a Message,
    gone: &'a Gone,
    end: Instant,
}

impl RetryHandler {
    /// Decides, and carries it out.
    pub(super) async fn settle(
        &self,
        open: &RetryQueue,
        message: &Message,
        gone: &Gone,
        end: Instant,
    ) {
        let case = Case {
            open,
            message,
            gone,
            end: end.min(Instant::now() + APPLY_TIMEOUT),
        };
        let event = match record(message) {
            Ok(record) => Event::of(record),
            Err(reason) => {
                tracing::warn!(%reason, "dead-letter");
                let cause = Cause {
                    reason: &reason.to_string(),
                    id: &message.id,
                    first_sent: message.sent,
                    decided: None,
                };
                return case.dead_letter(&cause).await;
            }
        };
        let function = &event.record.function;
        if !self
            .options
            .functions
            .allows(function, &open.description.arn)
        {
            let reason = format!(
                "{function} is none of the functions that may be invoked: name it in functions (BACKSTOP_FUNCTIONS) if it is to be"
            );
            tracing::warn!(event = event.id, reason, "dead-letter");
            return case.dead_letter_event(&event, &reason, None).await;
        }
        if is_redriven(message) {
            tracing::info!(
                event = event.id,
                attempt = event.next_attempt().get(),
                "redriven: invoked at once"
            );
            let next = event.redriven(open.queue.now());
            if let Some(reason) = self.obstacle(&case, &event, &next).await {
                tracing::warn!(event = event.id, reason, "dead-letter");
                return case.dead_letter_event(&event, &reason, None).await;
            }
            return self.invoke(&case, &event, next, None, message.sent).await;
        }
        let failure = event.failure(message);
        let payload = Arc::new(Payload::new(event.payload()));
        let room = event.room(open.expires(message));
        let decided = self.decider.decide(failure.clone(), payload, room).await;
        let said = Some((&failure, &decided));
        let (error, class) = (&failure.error.code, &decided.decision.class);
        match &decided.decision.action {
            Action::Discard { reason } => {
                tracing::warn!(event = event.id, %error, %class, reason, "discard");
                case.done().await;
            }
            Action::DeadLetter { reason } => {
                tracing::warn!(event = event.id, %error, %class, reason, "dead-letter");
                case.dead_letter_event(&event, reason, said).await;
            }
            Action::Retry { delay } => {
                let next = event.retried(*delay, &decided);
                if let Some(reason) = self.obstacle(&case, &event, &next).await {
                    tracing::warn!(event = event.id, %error, %class, reason, "dead-letter");
                    return case.dead_letter_event(&event, &reason, said).await;
                }
                let (now, due) = (open.queue.now(), event.due(*delay));
                if now < due {
                    let wait = due.since(now);
                    tracing::info!(event = event.id, attempt = event.next_attempt().get(), %error, %class, %delay, left = %Milliseconds::from_duration(wait), "hold");
                    case.hide(VisibilityTimeout::rounded_up(wait.min(STEP)))
                        .await;
                    return;
                }
                self.invoke(&case, &event, next, said, due).await;
            }
        }
    }

    /// What keeps an event from being invoked again, known before its time has come.
    async fn obstacle(&self, case: &Case<'_>, event: &Event, next: &str) -> Option<String> {
        if next.len() > EVENT_BYTES {
            return Some(format!(
                "the event has {} bytes in its envelope: Lambda takes at most {EVENT_BYTES}",
                next.len()
            ));
        }
        // Lambda would lose the record of the next failure, and the event with it.
        let grown = next.len().saturating_sub(event.record.event.get().len());
        let most = case.open.description.max_message_bytes.min(BATCH_BYTES);
        if case.message.body.len() + grown > most {
            return Some(format!(
                "the record of another failure would have {} bytes: the retry queue takes at most {most}",
                case.message.body.len() + grown
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

    /// Invokes the event's function, as was due at `due`. Only what Lambda has taken leaves the queue.
    async fn invoke(
        &self,
        case: &Case<'_>,
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
                case.done().await;
                return;
            }
            Err(error) => error,
        };
        let tries = case.message.receive_count.get();
        let now = case.open.queue.now();
        let wait = match invoke::refused(&error, tries, rand::random()) {
            Refused::ForNow(wait) => wait,
            Refused::Denied(wait) if now < due.max(case.message.sent).plus(DENIED) => {
                tracing::error!(event = event.id, function, %error, "the function may not be invoked: {}; tried again for 12 hours", if is_of_host(&error.code) { "mend the settings of this handler" } else { "allow lambda:InvokeFunction on it" });
                wait
            }
            Refused::Denied(_) | Refused::ForGood => {
                tracing::warn!(event = event.id, function, %error, "the function can't be invoked: dead-letter");
                let reason = format!("{} can't be invoked: {error}", unqualified(function));
                return case.dead_letter_event(event, &reason, decided).await;
            }
        };
        if now.plus(wait.as_duration()) >= case.open.expires(case.message) {
            tracing::warn!(event = event.id, function, %error, "not invoked before the retry queue's retention is over: dead-letter");
            let reason =
                format!("not invoked before the retry queue's retention was over: {error}");
            return case.dead_letter_event(event, &reason, decided).await;
        }
        tracing::warn!(event = event.id, function, %error, %wait, "not invoked: tried again");
        case.hide(VisibilityTimeout::rounded_up(wait.as_duration().min(STEP)))
            .await;
    }
}

fn record(message: &Message) -> Result<Record, NoRecord> {
    let is_of_function = ["RequestID", "ErrorCode"]
        .iter()
        .all(|name| message.attributes.contains_key(*name));
    match Record::parse(&message.body, &message.id, message.sent) {
        Err(NoRecord::Shape(_)) if is_of_function => Err(NoRecord::DeadLetterConfig),
        parsed => parsed,
    }
}

impl Case<'_> {
    /// The message is done with, and is deleted. The mapping does so too, for what is not reported: a failure is told and left at that.
    async fn done(&self) {
        self.gone.set();
        let handle = &self.message.receipt_handle;
        let delete = self.open.requests.delete(handle, self.end);
        match timeout_at(self.end, delete).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a message could not be deleted: that is left to the mapping")
            }
            Err(_) => tracing::warn!(
                "a message could not be deleted in time: that is left to the mapping"
            ),
        }
    }

    /// Hides the message. Where that fails it comes early, which does no harm.
    async fn hide(&self, timeout: VisibilityTimeout) {
        let handle = &self.message.receipt_handle;
        match self.open.requests.hide(handle, timeout, self.end).await {
            Ok(()) => {}
            Err(GaveUp::Entry(error)) if error.message.contains("beyond the limit") => {
                tracing::debug!(%error, "the message comes early");
            }
            Err(error) => tracing::warn!(%error, "a message could not be hidden: it comes early"),
        }
    }

    /// Moves the message of an event to the dead-letter queue.
    async fn dead_letter_event(
        &self,
        event: &Event,
        reason: &str,
        decided: Option<(&Failure, &Decided)>,
    ) {
        let cause = Cause {
            reason,
            id: &event.id,
            first_sent: event.first_failed,
            decided,
        };
        self.dead_letter(&cause).await
    }

    /// Sends the message to the dead-letter queue; it leaves this one only once that has it.
    async fn dead_letter(&self, cause: &Cause<'_>) {
        let queue = match timeout_at(self.end, self.open.dead_letters()).await {
            Ok(Ok(Some(queue))) => queue,
            Ok(Ok(None)) => {
                tracing::error!(
                    reason = cause.reason,
                    "there is no dead-letter queue: the message stays; set dead-letter-queue, or give the retry queue a redrive policy"
                );
                return self.hide(DEAD_LETTER_RETRY_DELAY).await;
            }
            // It was told what is wrong with it.
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(
                    reason = cause.reason,
                    "the dead-letter queue is not known yet: the message stays and is tried again soon"
                );
                return self.hide(DEAD_LETTER_RETRY_DELAY).await;
            }
        };
        let letter = dead_letter(self.message, cause, &queue.description);
        if let Err(error) = queue.requests.send(letter, self.end).await {
            tracing::error!(%error, "a message could not be dead-lettered: it stays and is tried again soon");
            return self.hide(DEAD_LETTER_RETRY_DELAY).await;
        }
        self.done().await;
    }
}
