//! What a message that is sent again carries along: one attribute, which keeps it the same message for every host that receives it.

use std::time::Duration;

use crate::decider::Decided;
use crate::decision::LONGEST_DELAY;
use crate::failure::{Failure, ID_BYTES, Milliseconds, Timestamp};
use crate::queue::{Attribute, Envelope, MAX_ATTRIBUTES, Message, Outgoing};
use crate::waiting::{CARRIED_BYTES, carried};

/// The attribute's name.
pub const ENVELOPE: &str = "BackstopEnvelope";

/// The most bytes of the attribute, its name and data type included.
pub(crate) const MOST_BYTES: usize = 1_024;

/// The longest text of the policy's digests and of the sender.
const TEXT_BYTES: usize = 256;

/// The most attempts and hops that an envelope may claim. A sender can forge it.
const MOST: u32 = 1_000_000;

/// The envelope of a message after this failure.
pub(crate) fn after(
    message: &Message,
    failure: &Failure,
    delay: Milliseconds,
    decided: &Decided,
) -> Envelope {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    let short = |text: &str| text.len() <= TEXT_BYTES && text.chars().all(is_plain);
    Envelope {
        id: message.id.clone(),
        sent: message.sent,
        first_received: message.first_received,
        sender: message.sender.clone().filter(|sender| short(sender)),
        attempts: failure.attempt.get(),
        delay,
        due: failure.failed_at.plus(delay.as_duration()),
        hops: 0,
        policy: Some(decided.policy.as_str())
            .filter(|it| short(it))
            .unwrap_or_default()
            .into(),
        code: carried(&failure.error.code).into_owned(),
        class: carried(&decided.decision.class.to_string()).into_owned(),
        failed: None,
    }
}

/// Opens the envelope of a received message, if it has one: the message is then as it was when it was first sent, with the receives that were attempts.
pub(crate) fn open(message: &mut Message, now: Timestamp) {
    let Some(Attribute::Text { value, .. }) = message.attributes.get(ENVELOPE) else {
        return;
    };
    let Some(envelope) = parse(value, now) else {
        tracing::warn!(
            id = message.id,
            "a message has an invalid attribute {ENVELOPE}: it is handled as a new message"
        );
        return;
    };
    message.attributes.remove(ENVELOPE);
    message.id.clone_from(&envelope.id);
    message.sent = envelope.sent;
    message.first_received = envelope.first_received;
    message.sender.clone_from(&envelope.sender);
    message.receive_count = message.receive_count.saturating_add(envelope.attempts);
    message.envelope = Some(Box::new(envelope));
}

/// A sender can forge an envelope: one with impossible values is none.
fn parse(text: &str, now: Timestamp) -> Option<Envelope> {
    let envelope: Envelope = (text.len() <= MOST_BYTES)
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

/// The message to send with an envelope. It becomes visible after `delay`, in whole seconds.
pub(crate) fn seal(envelope: &Envelope, message: &Message, delay: Duration) -> Outgoing {
    let mut attributes = message.attributes.clone();
    let text = serde_json::to_string(envelope).unwrap_or_default();
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

/// Whether a message has room for an envelope: one attribute, within the queue's limit on sizes.
pub(crate) fn has_room(message: &Message, max_message_bytes: usize) -> bool {
    let others = message.attributes.len() - usize::from(message.attributes.contains_key(ENVELOPE));
    others < MAX_ATTRIBUTES
        && message.id.len() <= ID_BYTES
        && message.size().saturating_add(MOST_BYTES) <= max_message_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Action, DecidedBy, Decision, ErrorClass, Hold};
    use crate::queue::ReceiptHandle;
    use backstop_core::examples::ordinary_failure;
    use std::num::NonZeroU32;

    fn message() -> Message {
        Message {
            id: "m-1".to_owned(),
            receipt_handle: ReceiptHandle("r".into()),
            body: "body".into(),
            attributes: [("a".to_owned(), Attribute::number(1))].into(),
            receive_count: NonZeroU32::new(3).unwrap(),
            sent: Timestamp(1_000),
            kept_since: Timestamp(1_000),
            first_received: Timestamp(2_000),
            received: tokio::time::Instant::now(),
            sender: Some("AIDA:sender".to_owned()),
            group: Some("tenant".to_owned()),
            deduplication_id: None,
            trace_header: Some("Root=1".to_owned()),
            dead_letter_source: None,
            envelope: None,
        }
    }

    fn failure(attempt: u32, failed_at: Timestamp) -> Failure {
        Failure {
            attempt: NonZeroU32::new(attempt).unwrap(),
            failed_at,
            ..ordinary_failure()
        }
    }

    fn decided(policy: &str) -> Decided {
        Decided {
            decision: Decision {
                class: ErrorClass::Transient,
                action: Action::Retry {
                    delay: Milliseconds(1),
                },
                decided_by: DecidedBy::Policy,
                hold: Hold::Resend,
            },
            policy: policy.to_owned(),
            payload: None,
        }
    }

    /// What SQS delivers of a message that was sent.
    fn delivered(sent: Outgoing, id: &str, now: Timestamp) -> Message {
        Message {
            id: id.to_owned(),
            attributes: sent.attributes,
            body: sent.body,
            group: sent.group,
            trace_header: sent.trace_header,
            sent: now,
            kept_since: now,
            first_received: now,
            sender: Some("AROA:backstop".to_owned()),
            receive_count: NonZeroU32::MIN,
            ..message()
        }
    }

    #[test]
    fn a_message_that_was_sent_again_is_the_one_that_it_was() {
        let (original, now) = (message(), Timestamp(10_000));
        let delay = Milliseconds(60_000);
        let envelope = after(&original, &failure(3, now), delay, &decided("sha256:ab"));
        let sent = seal(&envelope, &original, delay.as_duration());
        assert_eq!(sent.attributes.len(), 2);

        let arrived = Timestamp(70_000);
        let mut opened = delivered(sent, "m-2", arrived);
        open(&mut opened, arrived);
        assert_eq!(opened.kept_since, arrived);
        let expected = Message {
            receive_count: NonZeroU32::new(4).unwrap(),
            kept_since: arrived,
            received: opened.received,
            envelope: Some(Box::new(envelope.clone())),
            ..original
        };
        assert_eq!(opened, expected);
        assert_eq!(envelope.early_by(Timestamp(69_000)), None);
        let early = envelope.early_by(Timestamp(10_000));
        assert_eq!(early, Some(Duration::from_secs(60)));
    }

    #[test]
    fn an_envelope_with_impossible_values_is_none() {
        let now = Timestamp(10_000);
        let good = after(&message(), &failure(1, now), Milliseconds(1), &decided(""));
        let text = |envelope: &Envelope| serde_json::to_string(envelope).unwrap();
        let forged = [
            text(&Envelope {
                attempts: u32::MAX,
                ..good.clone()
            }),
            text(&Envelope {
                hops: u32::MAX,
                ..good.clone()
            }),
            text(&Envelope {
                id: String::new(),
                ..good.clone()
            }),
            text(&Envelope {
                id: "x".repeat(2_000),
                ..good.clone()
            }),
            text(&Envelope {
                due: Timestamp(u64::MAX),
                ..good.clone()
            }),
            text(&Envelope {
                sent: Timestamp(u64::MAX),
                ..good.clone()
            }),
            "[\"m\", 1]".to_owned(),
            "{}".to_owned(),
            String::new(),
        ];
        for text in forged {
            let mut message = message();
            message
                .attributes
                .insert(ENVELOPE.to_owned(), Attribute::string(text));
            let mut opened = message.clone();
            open(&mut opened, now);
            assert_eq!(opened, message);
        }
        assert_eq!(parse(&text(&good), now), Some(good));
    }

    #[test]
    fn an_envelope_is_never_larger_than_the_room_that_is_kept_for_it() {
        let largest = Envelope {
            id: "\"".repeat(ID_BYTES / 2),
            sent: Timestamp(u64::MAX),
            first_received: Timestamp(u64::MAX),
            sender: Some("s".repeat(TEXT_BYTES)),
            attempts: u32::MAX,
            delay: Milliseconds(u32::MAX),
            due: Timestamp(u64::MAX),
            hops: u32::MAX,
            policy: "p".repeat(TEXT_BYTES),
            code: "c".repeat(CARRIED_BYTES),
            class: "c".repeat(CARRIED_BYTES),
            failed: Some(Timestamp(u64::MAX)),
        };
        let message = message();
        let grown = seal(&largest, &message, Duration::ZERO).size() - message.size();
        assert!(grown <= MOST_BYTES, "{grown}");
        assert!(has_room(&message, message.size() + MOST_BYTES));
        assert!(!has_room(&message, message.size() + MOST_BYTES - 1));
        let mut full = message;
        for number in 0..9 {
            full.attributes
                .insert(number.to_string(), Attribute::number(number));
        }
        assert!(!has_room(&full, 1 << 20));
    }
}
