//! What Lambda and the retry handler write: records, envelopes, names of functions.

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_envelope::{Envelope, LARGEST_ATTEMPT, wrap};
use backstop_functions::{Event, FunctionName, InvocationRecord, is_function, unqualified};
use serde_json::value::RawValue;

use crate::{assert_readable, text};

const SENT: Timestamp = Timestamp(1_767_225_600_000);

/// A record as Lambda writes it of an event.
fn record_of(event: &str, request: &str) -> InvocationRecord {
    let body = format!(
        r#"{{"timestamp":"2026-01-01T00:00:00.000Z","requestContext":{{"requestId":"{request}","functionArn":"arn:aws:lambda:eu-west-1:1:function:f:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":1}},"requestPayload":{event},"responsePayload":{{"errorType":"E"}}}}"#
    );
    InvocationRecord::parse(&body, "m-1", SENT).expect("an event of ours is one of a record")
}

/// A record is read within the bounds of a failure. The event goes on: one attempt more, the same id, the same payload byte for byte, and no more than a bounded amount of text.
pub(crate) fn record(input: &[u8]) {
    let text = text(input);
    let record = match InvocationRecord::parse(&text, "m-1", SENT) {
        Ok(record) => record,
        Err(refused) => return assert_readable(&refused.to_string()),
    };
    assert!(record.failed_at <= SENT);
    assert!(
        (1..=128).contains(&record.request_id.len()),
        "{:?}",
        record.request_id
    );
    goes_on(Event::of(record));
}

fn goes_on(event: Event) {
    let failure = event.failure(Vec::new());
    assert_eq!(failure.within_bounds().as_ref(), &failure);
    let mut before = event;
    for round in 0..3 {
        let written = before.retried(Milliseconds(1_000), "sha256:0123");
        let event = Event::of(record_of(&written, &format!("another-{round}")));
        assert_eq!(event.payload(), before.payload());
        assert_eq!(event.id, before.id);
        let next = before.next_attempt().get().min(LARGEST_ATTEMPT);
        assert_eq!(event.next_attempt().get(), next + 1, "{written}");
        assert!(round == 0 || written.len() <= before.payload().len() + 64 * 1_024);
        let redriven = Event::of(record_of(&event.redriven(SENT), "redriven"));
        assert_eq!(
            (redriven.payload(), &redriven.id),
            (event.payload(), &event.id)
        );
        assert_eq!(redriven.failure(Vec::new()).attempt.get(), 1);
        before = event;
    }
}

/// An envelope that is opened is the same when it is wrapped and opened again. Any other event is wrapped byte for byte.
pub(crate) fn envelope(input: &[u8]) {
    let text = text(input);
    if let Some(opened) = Envelope::open(&text) {
        assert!(opened.metadata.attempt.get() <= LARGEST_ATTEMPT);
        let written = wrap(&opened.metadata, opened.payload.get());
        let again = Envelope::open(&written).expect("an envelope of ours is one");
        assert_eq!(again.payload.get(), opened.payload.get());
        assert_eq!(again.metadata, opened.metadata);
        assert_eq!(again.metadata.ordinal(), opened.metadata.ordinal());
    }
    if let Ok(event) = serde_json::from_str::<&RawValue>(&text) {
        goes_on(Event::of(record_of(event.get(), "r-1")));
    }
}

/// A function's name is read as the parts that its ARN has, and covers itself.
pub(crate) fn function_name(input: &[u8]) {
    let text = text(input);
    let plain = unqualified(&text);
    assert!(text.starts_with(plain));
    let Some(name) = FunctionName::parse(&text) else {
        return assert!(!is_function(&text));
    };
    assert!(
        !text.contains(['*', '?', '/', '"', ' ']),
        "part of an IAM policy"
    );
    let queue = "arn:aws:sqs:eu-west-1:123456789012:retries";
    let placed = name.at(queue);
    let arn = placed.arn("aws", None);
    assert!(!arn.contains('*'), "{arn}");
    assert_eq!(FunctionName::parse(&arn), Some(placed), "{arn}");
    assert!(name.covers(&placed) || placed.covers(&name), "{text}");
    let unnamed = FunctionName::parse(plain).expect("without its version, a name is one");
    assert!(unnamed.covers(&name), "{text}");
}
