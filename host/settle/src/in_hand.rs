//! A message that is to be settled, and the steps that settle it.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::dead_letter::{Cause, dead_letter};
use crate::decision::{Action, Decision, Hold};
use crate::failure::{Failure, Milliseconds, Timestamp};
use crate::hold;
use crate::queue::{Message, MessageEnvelope, QueueError, SubmitError, VisibilityTimeout};
use crate::settler::{REQUEST_TIMEOUT, Settled, Settler};
use crate::spans::in_span;
use backstop_core::text::head;
use backstop_decider::{Decided, DecidedFailure};
use backstop_records::LifeEvent;
use backstop_traces::Kind;

/// The most bytes of an error's text that the log has.
const ERROR_TEXT: usize = 1_000;

/// The most bytes of a command's last line that are logged as text.
const LAST_LINE: usize = 200;

/// A message that is to be settled.
#[derive(Clone, Copy)]
pub struct InHand<'a> {
    /// Settles the messages of its queue.
    pub settler: &'a Settler,
    /// The message.
    pub message: &'a Message,
    /// Identifies it in all of its attempts.
    pub id: &'a str,
    /// When it was first sent or, if that is unknown, when its first attempt failed.
    pub first_sent: Timestamp,
    /// When its requests end, if they must. Without, each is retried for [`REQUEST_TIMEOUT`].
    pub end: Option<Instant>,
}

impl Settler {
    /// A message that is known by its own id.
    pub fn take<'a>(&'a self, message: &'a Message) -> InHand<'a> {
        InHand {
            settler: self,
            message,
            id: &message.id,
            first_sent: message.sent,
            end: None,
        }
    }
}

impl InHand<'_> {
    /// Applies a decision. The next attempt is due after `left`. `attempts` are those that failed, if this failure was no attempt.
    pub async fn settle(
        &self,
        failure: &Failure,
        decided: &Decided,
        left: Duration,
        attempts: Option<u32>,
    ) -> Settled {
        let decision = &decided.decision;
        log(failure, decision, left);
        match &decision.action {
            Action::Discard { .. } => Settled::Discarded,
            Action::DeadLetter { reason } => {
                self.dead_letter(reason, Some((failure, decided))).await
            }
            Action::Retry { delay } => match decision.hold {
                Hold::Visibility => self.waits(left),
                Hold::Resend => {
                    let envelope = hold::after(self.message, failure, *delay, decided);
                    let envelope = match attempts {
                        Some(before) => envelope.without_attempt(before, failure.previous_delay),
                        None => envelope,
                    };
                    self.resend(envelope, Some((failure, decided))).await
                }
            },
        }
    }

    /// The envelope of a message that comes before its envelope says that it is due. A wake may have made it due earlier, at the time that `woken` returns.
    pub fn early(
        &self,
        woken: impl FnOnce(&MessageEnvelope) -> Option<Timestamp>,
    ) -> Option<MessageEnvelope> {
        let now = self.settler.queue.now();
        let envelope = self.message.envelope.as_deref()?;
        envelope.early_by(now)?;
        let envelope = match woken(envelope) {
            Some(due) => envelope.woken(due),
            None => envelope.clone(),
        };
        envelope.early_by(now).map(|_| envelope)
    }

    /// Sends a message again that comes early, because SQS delays a message for 15 minutes at most. On a queue whose messages are not sent again, one whose envelope no key verifies is held by visibility.
    pub async fn hop(&self, envelope: &MessageEnvelope) -> Settled {
        let left = envelope.due.since(self.settler.queue.now());
        let left_ms = Milliseconds::from_duration(left).0;
        tracing::debug!(hops = envelope.hops, "left-ms" = left_ms, "hop");
        if envelope.is_verified || self.settler.holds.sends_again() {
            self.resend(envelope.hopped(), None).await
        } else {
            self.waits(left)
        }
    }

    /// Sends the message again. If it can't be sent it is held by visibility, or dead-lettered if its queue would drop it meanwhile.
    async fn resend(&self, envelope: MessageEnvelope, decided: DecidedFailure<'_>) -> Settled {
        let Settler { queue, holds, .. } = self.settler;
        let since = Instant::now();
        let sent = holds.send_again(self.message, &envelope, queue.now(), self.until());
        let sent = in_span(
            Kind::Send,
            &self.settler.place,
            Some(self.id),
            self.in_time(sent),
        );
        let error = match sent.await {
            Ok((hop, sent_as)) => {
                let again = || LifeEvent::SentAgain {
                    sent_as,
                    due: envelope.due,
                    hops: envelope.hops,
                };
                // An envelope that nobody verifies gives the copy the id of this one.
                if self
                    .message
                    .envelope
                    .as_ref()
                    .is_some_and(|it| !it.is_verified)
                {
                    self.links(again);
                } else {
                    self.happened(again);
                }
                return Settled::SentAgain {
                    envelope: Box::new(envelope),
                    since,
                    hop,
                };
            }
            Err(error) => error,
        };
        // The send may have been retried for a while.
        let now = queue.now();
        let left = envelope.due.since(now);
        let hidden = left.min(self.message.max_delay().as_duration());
        if !holds.keeps(self.message, now, hidden) {
            tracing::error!(%error, "a message could not be sent again before its queue would drop it: it is dead-lettered");
            return self.dead_letter(&hold::unsendable(&error), decided).await;
        }
        tracing::warn!(%error, "a message could not be sent again: it is held by visibility");
        self.waits(left)
    }

    /// Counts a message as held by visibility, for as long as SQS allows.
    fn waits(&self, left: Duration) -> Settled {
        self.settler.holds.hidden();
        Settled::Waits(self.hidden_for(left))
    }

    /// How long it can be hidden, of the time that is left.
    pub fn hidden_for(&self, left: Duration) -> VisibilityTimeout {
        VisibilityTimeout::rounded_up(left.min(self.message.max_delay().as_duration()))
    }

    /// Sends its dead letter.
    pub async fn dead_letter(&self, reason: &str, decided: DecidedFailure<'_>) -> Settled {
        let cause = Cause {
            reason,
            id: self.id,
            first_sent: self.first_sent,
            source: &self.settler.source,
            decided,
        };
        let class = cause.class();
        let queue = match self.settler.dead_letter_queues.of(class.as_deref()).await {
            Ok(Some(queue)) => queue,
            Ok(None) => {
                tracing::error!(
                    reason,
                    "there is no dead-letter queue: the message stays in its queue; set dead-letter-queue, or give the queue a redrive policy"
                );
                return Settled::NoDeadLetterQueue;
            }
            Err(error) => {
                tracing::error!(reason, %error, "the dead-letter queue can't be reached: the message stays in its queue and is tried again later");
                return Settled::NoDeadLetterQueue;
            }
        };
        let letter = dead_letter(self.message, &cause, &queue.description);
        match queue.send(letter.clone(), self.until()).await {
            Ok(letter_id) => {
                self.happened(|| LifeEvent::DeadLettered {
                    reason: reason.to_owned(),
                    dead_letter_queue: queue.arn().to_owned(),
                    letter_id,
                });
                Settled::DeadLettered
            }
            Err(error) => {
                tracing::error!(%error, "the dead-letter queue does not accept a message: it stays in its queue and is sent again later");
                Settled::Refused(letter, queue)
            }
        }
    }

    /// Deletes the message.
    pub async fn delete(&self) -> Result<(), SubmitError> {
        let handle = &self.message.receipt_handle;
        let delete = self.settler.requests.delete(handle, self.until());
        let delete = in_span(
            Kind::Settle("delete"),
            &self.settler.place,
            Some(self.id),
            delete,
        );
        delete.await.inspect_err(|error| {
            tracing::warn!(%error, "a message could not be deleted: it may be delivered again");
        })
    }

    /// Makes the message invisible for this long from now.
    pub async fn hide(&self, timeout: VisibilityTimeout) -> Result<(), SubmitError> {
        let (requests, handle) = (&self.settler.requests, &self.message.receipt_handle);
        let change = requests.change_visibility(handle, timeout, self.until());
        let kind = Kind::Settle("change_visibility");
        let change = in_span(kind, &self.settler.place, Some(self.id), change);
        change.await.inspect_err(|error| {
            let is_early =
                matches!(error, SubmitError::Entry(it) if it.message.contains("beyond the limit"));
            if is_early {
                tracing::debug!(%error, "the message is delivered early");
            } else {
                tracing::warn!(%error, "a message could not be delayed: it is delivered again when its visibility timeout ends");
            }
        })
    }

    /// Passes an event of the message to those who record it.
    fn happened(&self, event: impl FnOnce() -> LifeEvent) {
        if let Some(events) = self.settler.events() {
            events.happened(self.id, self.message, event);
        }
    }

    fn links(&self, event: impl FnOnce() -> LifeEvent) {
        if let Some(events) = self.settler.events() {
            events.links(self.id, self.message, event);
        }
    }

    fn until(&self) -> Instant {
        self.end.unwrap_or_else(|| Instant::now() + REQUEST_TIMEOUT)
    }

    /// The result of a request whose answer is not awaited for longer than the message has time.
    async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, SubmitError>>,
    ) -> Result<T, SubmitError> {
        let Some(end) = self.end else {
            return request.await;
        };
        timeout_at(end, request).await.unwrap_or_else(|_| {
            let error = QueueError::new("request", "timeout", "no answer in time");
            Err(SubmitError::Request(error))
        })
    }
}

fn log(failure: &Failure, decision: &Decision, left: Duration) {
    let (error, class) = (&failure.error.code, &decision.class);
    let text = &failure.error.message;
    let last = last_line(error, text);
    let text = Some(head(text, ERROR_TEXT)).filter(|it| !it.is_empty());
    let (verdict, by) = (decision.action.verdict(), decision.decided_by.as_str());
    match &decision.action {
        Action::Retry { delay } => {
            let is_part = left < delay.as_duration();
            let left = is_part.then(|| Milliseconds::from_duration(left).0);
            let hold = decision.hold.as_str();
            // The one that is taken; the record has the one that was decided.
            let delay = delay.whole_seconds().0;
            tracing::info!(%error, %class, "delay-ms" = delay, "left-ms" = left, hold, by, text = last, "error-text" = text, "{verdict}");
        }
        Action::DeadLetter { reason } | Action::Discard { reason } => {
            tracing::warn!(%error, %class, reason, by, text = last, "error-text" = text, "{verdict}");
        }
    }
}

/// What a command wrote last, if its code says only how it ended.
fn last_line<'a>(code: &str, text: &'a str) -> Option<&'a str> {
    let says_little = code.starts_with("exit ") || code.starts_with("signal ");
    let last = text.trim_end().lines().next_back().map(str::trim)?;
    (says_little && !last.is_empty()).then(|| head(last, LAST_LINE))
}
