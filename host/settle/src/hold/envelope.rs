//! What a message that is sent again carries along: one attribute, which keeps it the same message for every host that receives it.

use std::time::Duration;

use crate::decision::LONGEST_DELAY;
use crate::failure::{Failure, ID_BYTES, Milliseconds, Timestamp};
use crate::queue::{Attribute, Description, Message, MessageEnvelope, Outgoing};
use backstop_decider::Decided;

use super::longest_hold;
use backstop_queue::envelope::{CARRIED_BYTES, ENVELOPE, EnvelopeKeys, MOST_BYTES, carried};

/// The longest text of the policy's digests.
const POLICY_BYTES: usize = 240;

/// The longest sender: the id and the session of a role have 86 characters.
const SENDER_BYTES: usize = 180;

/// The most attempts and hops that an envelope may claim. A sender can forge it.
const MOST: u32 = 1_000_000;

/// The envelope of a message after this failure.
pub fn after(
    message: &Message,
    failure: &Failure,
    delay: Milliseconds,
    decided: &Decided,
) -> MessageEnvelope {
    MessageEnvelope {
        id: message.id.clone(),
        sent: message.sent,
        first_received: message.first_received,
        sender: message
            .sender
            .clone()
            .filter(|sender| is_short(sender, SENDER_BYTES)),
        attempts: failure.attempt.get(),
        delay,
        due: failure.failed_at.plus(delay.as_duration()),
        hops: 0,
        policy: Some(decided.policy.as_str())
            .filter(|it| is_short(it, POLICY_BYTES))
            .unwrap_or_default()
            .into(),
        code: carried(&failure.error.code).into_owned(),
        class: carried(&decided.decision.class.to_string()).into_owned(),
        failed: None,
        trace: backstop_traces::current().map(|attempt| attempt.context),
        is_verified: true,
        other_id: None,
    }
}

/// Whether a text is as this host writes it into an envelope.
fn is_short(text: &str, most: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    text.len() <= most && text.chars().all(is_plain)
}

/// The envelopes of one queue.
#[derive(Debug)]
pub(super) struct Envelopes {
    /// The queue's ARN: an envelope of another queue is none of this one's.
    queue: String,
    /// A message of a FIFO queue is never sent again, so that every envelope on one is a stranger's.
    is_fifo: bool,
    keys: EnvelopeKeys,
    /// How long the queue can hold a message.
    longest: Duration,
    max_age: Option<Milliseconds>,
}

impl Envelopes {
    pub(super) fn of(
        queue: &Description,
        keys: EnvelopeKeys,
        max_age: Option<Milliseconds>,
    ) -> Self {
        Self {
            queue: queue.arn.clone(),
            is_fifo: queue.fifo,
            keys,
            longest: longest_hold(queue.retention),
            max_age,
        }
    }

    /// Opens the envelope of a received message, if it has one.
    ///
    /// Under an envelope that a key verifies, the message is as it was when it was first sent, with the receives that were attempts. Any sender can write one that no key verifies: it says how often this message was attempted and when it is due, within the bounds of the queue, and nothing by which the message could be taken for another one. Returns whether it was such an envelope.
    pub(super) fn open(&self, message: &mut Message, now: Timestamp) -> bool {
        let Some(Attribute::Text { value, .. }) = message.attributes.get(ENVELOPE) else {
            return false;
        };
        if self.is_fifo {
            return false;
        }
        let Some(envelope) = parse(value, now) else {
            tracing::warn!(
                id = message.id,
                "a message has an invalid attribute {ENVELOPE}: it is handled as a new message"
            );
            return false;
        };
        let is_verified = self.keys.verify(&self.queue, message, value);
        let envelope = if is_verified {
            MessageEnvelope {
                is_verified,
                other_id: Some(message.id.clone()),
                ..envelope
            }
        } else {
            self.of_its_own_message(envelope, message, now)
        };
        message.attributes.remove(ENVELOPE);
        message.id.clone_from(&envelope.id);
        message.sent = envelope.sent;
        message.first_received = envelope.first_received;
        message.sender.clone_from(&envelope.sender);
        message.receive_count = message.receive_count.saturating_add(envelope.attempts);
        message.envelope = Some(Box::new(envelope));
        !is_verified
    }

    /// What an envelope that no key verifies says about its own message.
    fn of_its_own_message(
        &self,
        found: MessageEnvelope,
        message: &Message,
        now: Timestamp,
    ) -> MessageEnvelope {
        let sent = found.sent.min(message.sent);
        MessageEnvelope {
            id: message.id.clone(),
            other_id: Some(found.id),
            sender: message.sender.clone(),
            sent,
            first_received: found.first_received.min(message.first_received),
            due: self.bounded(found.due, sent, message, now),
            policy: Some(found.policy)
                .filter(|it| is_short(it, POLICY_BYTES))
                .unwrap_or_default(),
            ..found
        }
    }

    /// A due time that the queue and `max-age` allow.
    fn bounded(
        &self,
        due: Timestamp,
        sent: Timestamp,
        message: &Message,
        now: Timestamp,
    ) -> Timestamp {
        let of_queue = message.kept_since.plus(self.longest);
        let of_age = self.max_age.map(|age| sent.plus(age.as_duration()));
        let latest = of_age.map_or(of_queue, |it| it.min(of_queue)).max(now);
        if due > latest {
            tracing::warn!(
                id = message.id,
                "the attribute {ENVELOPE} of a message, which this host can't verify, claims a due time beyond the queue's retention or max-age: it is due earlier, by {}",
                Milliseconds::from_duration(due.since(latest))
            );
        }
        due.min(latest)
    }

    /// The message to send with an envelope. It becomes visible after `delay`, in whole seconds.
    pub(super) fn seal(
        &self,
        envelope: &MessageEnvelope,
        message: &Message,
        delay: Duration,
    ) -> Outgoing {
        let text = serde_json::to_string(envelope).unwrap_or_default();
        let text = self.keys.sign(&self.queue, message.into(), &text);
        let mut attributes = message.attributes.clone();
        attributes.insert(ENVELOPE.to_owned(), Attribute::string(text));
        Outgoing {
            body: message.body.clone(),
            attributes,
            group: message.group.clone(),
            deduplication_id: None,
            trace_header: message.trace_header.clone(),
            // Also if it is zero: the queue's own delay would make the message late.
            delay: Some(delay),
        }
    }
}

/// A sender can forge an envelope: one with impossible values is none.
fn parse(text: &str, now: Timestamp) -> Option<MessageEnvelope> {
    let envelope: MessageEnvelope = (text.len() <= MOST_BYTES)
        .then(|| serde_json::from_str(text).ok())
        .flatten()?;
    let latest = now.plus(LONGEST_DELAY.as_duration());
    let is_possible = (1..=ID_BYTES).contains(&envelope.id.len())
        && envelope.attempts <= MOST
        && envelope.hops <= MOST
        && envelope.due <= latest
        && envelope.sent <= latest
        && envelope.code.len() <= CARRIED_BYTES
        && envelope.class.len() <= CARRIED_BYTES;
    is_possible.then_some(envelope)
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
