//! What is sent for a letter: the message or the event as it was before it died.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::failure::{ID_BYTES, Milliseconds, Timestamp};
use backstop_functions::{InvocationRecord, redriven_event};
use backstop_json::Object;
use backstop_queue::dead_letter::{ATTRIBUTES, DIED, TRACE};
use backstop_queue::envelope::{ENVELOPE, EnvelopeKeys};
use backstop_queue::{
    Attribute, BATCH_BYTES, Description, MAX_ATTRIBUTES, MessageEnvelope, Outgoing,
};
use backstop_traces::TraceContext;
use serde_json::value::RawValue;

use crate::letter::{Letter, payload};
use crate::origin::{self, Origin};
use crate::triage::Attempts;

/// The attributes of a dead letter that its message keeps: with them, a host knows it again when it fails, and the span of its last attempt.
const KEPT: [&str; 3] = ["BackstopMessageId", "BackstopFirstSent", TRACE];

/// What Lambda adds to a dead letter.
const ADDED: [&str; 3] = ["RequestID", "ErrorCode", "ErrorMessage"];

/// The attribute of a restored letter that says where it comes from.
const SOURCE: &str = "BackstopSource";

/// Why attempts can't go on in a FIFO queue.
const NO_KEEPING: &str = "its target is a FIFO queue, whose consumers count attempts in memory and would start again: leave --keep-attempts out";

/// The longest deduplication id.
const DEDUPLICATION_BYTES: usize = 128;

/// The longest text of a policy's digests in an envelope.
const POLICY_BYTES: usize = 256;

/// The most bytes that an envelope and the span of a redrive add to a message.
const ADDED_BYTES: usize = 2 << 10;

/// The message that a letter becomes in a queue, or why it can't. Its next attempt gets a link to `span`, the redrive.
#[expect(
    clippy::too_many_arguments,
    reason = "what a message is made of has no other name"
)]
pub(super) fn message(
    letter: &Letter,
    body: Arc<str>,
    attempts: Attempts,
    run: &str,
    target: &Description,
    keys: Option<&EnvelopeKeys>,
    now: Timestamp,
    span: Option<TraceContext>,
) -> Result<Outgoing, String> {
    let message = &letter.message;
    let mut outgoing = Outgoing {
        body,
        attributes: message.attributes.clone(),
        group: message
            .group
            .clone()
            .or_else(|| target.fifo.then(|| message.id.clone())),
        deduplication_id: target.fifo.then(|| deduplication_id(run, &message.id)),
        trace_header: message.trace_header.as_deref().map(without_lineage),
        delay: None,
    };
    outgoing
        .attributes
        .retain(|name, _| !is_of_death(name, letter.origin));
    // Nothing is refused for the want of a link.
    let has_room = outgoing.attributes.len() + 1 < MAX_ATTRIBUTES
        && outgoing.size() + ADDED_BYTES <= target.max_message_bytes;
    if let Some(span) = span.filter(|_| has_room) {
        let span = Attribute::string(span.to_string());
        outgoing.attributes.insert(TRACE.to_owned(), span);
    }
    match attempts {
        Attempts::Reset => {
            outgoing.attributes.remove(ENVELOPE);
        }
        Attempts::Keep if target.fifo => return Err(NO_KEEPING.to_owned()),
        Attempts::Keep => keep_attempts(letter, &mut outgoing, target, keys, now)?,
    }
    let (size, most) = (outgoing.size(), target.max_message_bytes);
    if size <= most {
        return Ok(outgoing);
    }
    let what = match attempts {
        Attempts::Keep => " with the attribute that keeps its attempts",
        Attempts::Reset => "",
    };
    let hint = if most < BATCH_BYTES {
        ": raise its MaximumMessageSize"
    } else {
        ""
    };
    Err(format!(
        "it has {size} bytes{what}, but the target accepts only {most}{hint}"
    ))
}

/// Whether an attribute says how the letter died, and nothing about its next life.
fn is_of_death(name: &str, origin: Origin) -> bool {
    let is_added = origin == Origin::LambdaDeadLetter && ADDED.contains(&name);
    let is_ours = name == DIED || (ATTRIBUTES.contains(&name) && !KEPT.contains(&name));
    is_added || is_ours || name == SOURCE
}

/// Adds the envelope that makes attempts go on, signed if there are keys. A message that SQS has moved may have one; nothing is known of the attempts of any other letter that does not say them.
fn keep_attempts(
    letter: &Letter,
    outgoing: &mut Outgoing,
    target: &Description,
    keys: Option<&EnvelopeKeys>,
    now: Timestamp,
) -> Result<(), String> {
    let attributes = &mut outgoing.attributes;
    let Some(attempts) = letter
        .attempt
        .filter(|_| !attributes.contains_key(ENVELOPE))
    else {
        return Ok(());
    };
    if letter.original_id.len() > ID_BYTES {
        return Err("its original id is too long to keep its attempts".to_owned());
    }
    // The envelope has it.
    attributes.remove("BackstopFirstSent");
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    let policy = letter.policy.clone().unwrap_or_default();
    let envelope = MessageEnvelope {
        id: letter.original_id.clone(),
        sent: letter.first_sent.unwrap_or(letter.message.sent).min(now),
        first_received: letter.message.first_received.min(now),
        sender: None,
        attempts,
        delay: Milliseconds(0),
        due: now,
        hops: 0,
        policy: if policy.len() <= POLICY_BYTES && policy.chars().all(is_plain) {
            policy
        } else {
            String::new()
        },
        code: String::new(),
        class: String::new(),
        failed: None,
        trace: None,
        is_verified: false,
        other_id: None,
    };
    let text = serde_json::to_string(&envelope).map_err(|error| error.to_string())?;
    if attributes.len() >= MAX_ATTRIBUTES {
        attributes.remove("BackstopMessageId");
    }
    if attributes.len() >= MAX_ATTRIBUTES {
        return Err(format!(
            "it has {MAX_ATTRIBUTES} attributes, so there is no room for its attempts: leave --keep-attempts out"
        ));
    }
    let text = match keys {
        Some(keys) => keys.sign(&target.arn, (&*outgoing).into(), &text),
        None => text,
    };
    outgoing
        .attributes
        .insert(ENVELOPE.to_owned(), Attribute::string(text));
    Ok(())
}

/// The payload with which this function is invoked for a letter, or why it can't be. [`invocation`] makes the event of it.
pub(super) fn event(letter: &Letter, attempts: Attempts, function: &str) -> Result<String, String> {
    let body = &letter.message.body;
    let event = match letter.origin {
        Origin::Sns => notification(body),
        Origin::LambdaDeadLetter => letter.event(),
        // The body may be the record of a failed invocation.
        Origin::Backstop | Origin::Sqs | Origin::LambdaDestination | Origin::Unknown => {
            origin::function(body).and_then(|_| payload(body))
        }
    };
    let event = event.unwrap_or_else(|| body.to_string());
    if serde_json::from_str::<serde::de::IgnoredAny>(&event).is_err() {
        return Err("its body is not JSON, but the event of a function has to be".to_owned());
    }
    let record = record(letter);
    let is_other = record.is_some_and(|it| !is_function(function, &it.function));
    let is_payload =
        attempts == Attempts::Reset || is_other || known_by_id(letter, function).is_some();
    let event = if is_payload {
        original_payload(&event).unwrap_or(event)
    } else {
        event
    };
    check_event(event)
}

/// The event of this function with this payload: in an envelope if the function gets such events, so that its id stays the same. An invocation would give it another one, and what was done once for the id would be done again.
pub(super) fn invocation(
    letter: &Letter,
    payload: String,
    attempts: Attempts,
    function: &str,
    now: Timestamp,
) -> Result<String, String> {
    let Some(record) = known_by_id(letter, function) else {
        return check_event(payload);
    };
    let payload = RawValue::from_string(payload).map_err(|error| error.to_string())?;
    let starts_again = attempts == Attempts::Reset;
    check_event(redriven_event(record, payload, starts_again, now))
}

/// The record in a letter, if there is one.
fn record(letter: &Letter) -> Option<InvocationRecord> {
    let Letter { message, .. } = letter;
    InvocationRecord::parse(&message.body, &message.id, message.sent).ok()
}

/// Whether a name or an ARN is that of a function, whose ARN this is. Either may have a version or an alias.
fn is_function(name: &str, arn: &str) -> bool {
    // The name of a function has six parts before it in an ARN, and two in the short form with an account.
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split(':').map(str::to_owned);
        let count = match text.split(':').nth(1) {
            _ if text.starts_with("arn:") => 7,
            Some("function") => 3,
            Some(_) | None => 1,
        };
        parts.take(count).collect()
    };
    parts(arn).ends_with(&parts(name))
}

/// The record in a letter, if this function knows its event by an id in an envelope: the event is its own, and the Lambda retry handler has put the letter there, or has retried the event before.
fn known_by_id(letter: &Letter, function: &str) -> Option<InvocationRecord> {
    let record = record(letter).filter(|it| is_function(function, &it.function))?;
    let has_id = || {
        let fields = Object::parse(record.event.get()).ok();
        let fields = fields.filter(|fields| fields.len() == 2)?;
        fields.object("_retry_metadata")?.text("id")
    };
    (letter.origin == Origin::Backstop || has_id().is_some()).then_some(record)
}

/// Checks the size of an event.
fn check_event(event: String) -> Result<String, String> {
    if event.len() > BATCH_BYTES {
        return Err(format!(
            "its event has {} bytes, but Lambda accepts only {BATCH_BYTES}",
            event.len()
        ));
    }
    Ok(event)
}

/// What a function that subscribes to a topic is invoked with. A notification in a queue has other names for two addresses, and lacks what is empty. The ARN of the subscription is not known.
fn notification(body: &str) -> Option<String> {
    let fields = Object::parse(body).ok()?;
    fields.text("TopicArn")?;
    let mut sns = BTreeMap::from([
        ("Subject".to_owned(), "null"),
        ("MessageAttributes".to_owned(), "{}"),
    ]);
    for (name, value) in fields {
        let name = match name.as_str() {
            "SigningCertURL" => "SigningCertUrl".to_owned(),
            "UnsubscribeURL" => "UnsubscribeUrl".to_owned(),
            _ => name,
        };
        sns.insert(name, value.get());
    }
    let sns: Vec<_> = sns
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{}:{value}", serde_json::to_string(&name).ok()?)))
        .collect();
    let sns = sns.join(",");
    Some(format!(
        r#"{{"Records":[{{"EventSource":"aws:sns","EventVersion":"1.0","Sns":{{{sns}}}}}]}}"#
    ))
}

/// The payload in an envelope of the Lambda retry handler: the event before its first failure.
fn original_payload(event: &str) -> Option<String> {
    let fields = Object::parse(event).ok()?;
    fields.object("_retry_metadata")?;
    let payload = fields
        .get("_original_payload")
        .filter(|_| fields.len() == 2)?;
    Some(payload.get().to_owned())
}

/// The id by which a FIFO queue recognises a letter that is sent twice within five minutes by the same run.
fn deduplication_id(run: &str, id: &str) -> String {
    let mut text = format!("{run}-{id}");
    let is_allowed = |c: char| c.is_ascii_graphic();
    text.retain(is_allowed);
    text.truncate(DEDUPLICATION_BYTES);
    text
}

/// A trace header without the part by which Lambda counts the invocations of a chain: a redrive starts a new chain.
fn without_lineage(header: &str) -> String {
    let parts = header.split(';');
    let kept: Vec<_> = parts
        .filter(|it| !it.trim_start().starts_with("Lineage="))
        .collect();
    kept.join(";")
}
