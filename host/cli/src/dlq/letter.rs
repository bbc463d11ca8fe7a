//! A letter as JSON.

use backstop_dead_letters::{Letter, Source};
use backstop_queue::Attribute;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::terminal::joined;

/// What is known of a letter, as JSON; with its body and attributes if `whole`.
pub(super) fn as_json(letter: &Letter, queue: &str, whole: bool) -> Value {
    let message = &letter.message;
    let source = letter.source.as_ref().map(|source| match source {
        Source::Queue(arn) => json!({"queue": arn}),
        Source::Function(arn) => json!({"function": arn}),
        Source::Topic(arn) => json!({"topic": arn}),
    });
    let fingerprint = letter.fingerprint();
    let known = json!({
        "id": message.id,
        "queue": queue,
        "origin": letter.origin,
        "source": source,
        "original-id": letter.original_id,
        "reason": letter.reason,
        "class": letter.class,
        "error": letter.error,
        "policy": letter.policy,
        "attempt": letter.attempt,
        "first-sent": letter.first_sent,
        "dead-since": letter.dead_since,
        "sent": message.sent,
        "receives": message.receive_count,
        "group": message.group,
        "bytes": message.size(),
        "fingerprint": {"id": fingerprint.id(), "text": fingerprint.text()},
    });
    if !whole {
        return known;
    }
    let attributes = message.attributes.iter();
    let attributes: Map<_, _> = attributes
        .map(|(name, value)| (name.clone(), attribute(value)))
        .collect();
    let rest = json!({
        "body": &*message.body,
        "attributes": attributes,
        "deduplication-id": message.deduplication_id,
        "trace-header": message.trace_header,
        "sender": message.sender,
    });
    joined(known, rest)
}

fn attribute(value: &Attribute) -> Value {
    match value {
        Attribute::Text { data_type, value } => json!({"type": data_type, "value": value}),
        Attribute::Binary { data_type, value } => {
            json!({"type": data_type, "base64": STANDARD.encode(value)})
        }
    }
}
