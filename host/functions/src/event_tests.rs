use serde_json::{Value, json};

use super::*;

const FAILED_AT: u64 = 1_767_225_600_250;

fn record(event: &str, count: u32, seconds_later: u64) -> InvocationRecord {
    let time =
        jiff::Timestamp::from_millisecond((FAILED_AT + seconds_later * 1_000) as i64).unwrap();
    let condition = if count == 0 {
        "EventAgeExceeded"
    } else {
        "RetriesExhausted"
    };
    let body = format!(
        r#"{{"version": "1.0", "timestamp": "{time}", "requestContext": {{"requestId": "r-1", "functionArn": "arn:aws:lambda:eu-west-1:1:function:f:live", "condition": "{condition}", "approximateInvokeCount": {count}}},
            "requestPayload": {event}, "responsePayload": {{"errorType": "OutOfStock", "errorMessage": "none left"}}}}"#
    );
    InvocationRecord::parse(&body, "m-1", Timestamp(u64::MAX)).unwrap()
}

fn retried(event: &Event, delay: u32) -> String {
    event.retried(Milliseconds(delay), "sha256:00")
}

#[test]
fn the_first_retry_carries_attempt_two_and_all_that_is_known() {
    let event = Event::of(record(r#"{"order": 1}"#, 1, 0));
    let failure = event.failure(Vec::new());
    assert_eq!((failure.attempt.get(), failure.age.0), (1, 0));
    assert_eq!(
        (failure.message_id.as_str(), failure.previous_delay),
        ("r-1", None)
    );
    assert_eq!(failure.source, "arn:aws:lambda:eu-west-1:1:function:f:live");
    let next: Value = serde_json::from_str(&retried(&event, 1_500)).unwrap();
    assert_eq!(
        next,
        json!({
            "_retry_metadata": {"attempt": 2, "initial_timestamp": 1_767_225_600, "id": "r-1", "previous_delay_ms": 1_500, "last_error": {"code": "OutOfStock", "message": "none left"}, "policy": "sha256:00"},
            "_original_payload": {"order": 1}
        })
    );
}

#[test]
fn attempts_count_on_and_envelopes_are_never_nested() {
    let mut event = Event::of(record("[1]", 1, 0));
    for attempt in 2..=20 {
        let next = retried(&event, attempt * 1_000);
        assert_eq!(next.matches("_original_payload").count(), 1);
        event = Event::of(record(&next, 1, u64::from(attempt) * 60));
        let failure = event.failure(Vec::new());
        assert_eq!(failure.attempt.get(), attempt);
        assert_eq!(failure.previous_delay, Some(Milliseconds(attempt * 1_000)));
        // The first failure is known to the second.
        assert_eq!(failure.age.0, attempt * 60_000 + 250);
        assert_eq!(
            (event.payload(), failure.message_id.as_str()),
            ("[1]", "r-1")
        );
    }
}

#[test]
fn an_event_that_never_ran_has_used_up_no_attempt() {
    let first = Event::of(record("1", 0, 0));
    assert_eq!(
        (
            first.failure(Vec::new()).attempt.get(),
            first.next_attempt().get()
        ),
        (1, 1)
    );
    let second = Event::of(record(&retried(&first, 0), 1, 0));
    assert_eq!(
        (
            second.failure(Vec::new()).attempt.get(),
            second.next_attempt().get()
        ),
        (1, 2)
    );
    let third = Event::of(record(&retried(&second, 0), 0, 0));
    assert_eq!(
        (
            third.failure(Vec::new()).attempt.get(),
            third.next_attempt().get()
        ),
        (1, 2)
    );
}

#[test]
fn the_plain_patterns_envelope_is_carried_on() {
    // It counts retries: the first of them carries 1.
    let plain = r#"{"_retry_metadata": {"attempt": 1, "initial_timestamp": 1767222000, "note": "kept"}, "_original_payload": {"a": 1}}"#;
    let event = Event::of(record(plain, 1, 0));
    let failure = event.failure(Vec::new());
    assert_eq!((failure.attempt.get(), failure.age.0), (2, 3_600_250));
    assert_eq!(event.payload(), r#"{"a": 1}"#);
    let next: Value = serde_json::from_str(&retried(&event, 0)).unwrap();
    assert_eq!(next["_retry_metadata"]["attempt"], 3);
    assert_eq!(next["_retry_metadata"]["id"], "r-1");
    assert_eq!(next["_retry_metadata"]["note"], "kept");
    assert_eq!(next["_original_payload"], json!({"a": 1}));
}

#[test]
fn a_payload_with_those_keys_of_its_own_comes_through() {
    for payload in [
        r#"{"_retry_metadata": "mine", "_original_payload": 1}"#,
        r#"{"_retry_metadata": {"attempt": 3, "initial_timestamp": 5}, "_original_payload": 1, "more": true}"#,
        r#"{"_original_payload": {"x": 1}}"#,
        "null",
        "\"text\"",
    ] {
        let event = Event::of(record(payload, 1, 0));
        assert_eq!(event.failure(Vec::new()).attempt.get(), 1);
        let next = retried(&event, 0);
        let opened = Envelope::open(&next).unwrap();
        assert_eq!(opened.payload.get(), payload);
    }
}

#[test]
fn after_a_redrive_the_policy_counts_from_there() {
    let mut event = Event::of(record("1", 1, 0));
    for attempt in 2..=5 {
        event = Event::of(record(&retried(&event, 1), 1, attempt * 60));
    }
    let redriven_at = Timestamp(FAILED_AT + 86_400_000);
    let next = event.redriven(redriven_at);
    let metadata = Envelope::open(&next).unwrap().metadata;
    assert_eq!(
        (metadata.attempt.get(), metadata.previous_delay_ms),
        (6, None)
    );
    let event = Event::of(record(&next, 1, 86_400 + 10));
    let failure = event.failure(Vec::new());
    assert_eq!((failure.attempt.get(), failure.age.0), (1, 10_250));
    // Its first failure is still known.
    assert_eq!(event.first_failed, Timestamp(1_767_225_600_000));
    let event = Event::of(record(&retried(&event, 1), 1, 86_400 + 60));
    assert_eq!(
        (
            event.failure(Vec::new()).attempt.get(),
            event.next_attempt().get()
        ),
        (2, 8)
    );
}

#[test]
fn an_event_is_due_by_the_time_of_its_failure() {
    let event = Event::of(record("1", 1, 0));
    assert_eq!(event.due(Milliseconds(5)), Timestamp(FAILED_AT + 5));
}

#[test]
fn what_travels_with_every_attempt_is_short() {
    let mut record = record("1", 1, 0);
    record.error.code = "c".repeat(5_000);
    record.error.message = "m".repeat(5_000);
    let next = retried(&Event::of(record), 0);
    assert!(next.len() < 800, "{}", next.len());
}

#[test]
fn what_a_sender_writes_on_an_event_does_not_lift_the_bounds() {
    for metadata in [
        r#"{"attempt": 3, "initial_timestamp": 99999999999, "id": "x"}"#,
        r#"{"attempt": 3, "initial_timestamp": 99999999999, "id": "x", "redriven": {"attempts": 4294967295, "timestamp": 1}}"#,
        r#"{"attempt": 3, "initial_timestamp": 99999999999, "id": "x", "redriven": {"attempts": 1, "timestamp": 99999999999}}"#,
        r#"{"attempt": 2, "initial_timestamp": 99999999999, "redriven": {"attempts": 1, "timestamp": 1}}"#,
    ] {
        let event = format!(r#"{{"_retry_metadata": {metadata}, "_original_payload": 1}}"#);
        let event = Event::of(record(&event, 1, 0));
        assert_eq!(event.failure(Vec::new()).attempt.get(), 3, "{metadata}");
        assert!(event.first_failed <= event.record.failed_at);
    }
}

/// The table that the functions in Python, Node.js and Rust are tested by too.
#[test]
fn each_event_of_the_table_is_taken_for_what_it_is() {
    let table = include_str!("../envelopes.json");
    let cases: Vec<Value> = serde_json::from_str(table).unwrap();
    for case in cases {
        let text = case["event"].as_str().unwrap();
        let event = Event::of(record(text, 1, 0));
        let made = event.next_attempt().get() - 1;
        match case["envelope"].as_object() {
            Some(envelope) => {
                let id = envelope["id"].as_str().unwrap_or("r-1");
                let attempt = u64::from(made);
                assert_eq!(envelope["payload"], event.payload(), "{}", case["name"]);
                assert_eq!(envelope["attempt"], attempt, "{}", case["name"]);
                assert_eq!(event.id, id, "{}", case["name"]);
                // No first failure is later than this one.
                let first = envelope["first_seen"].as_u64().unwrap() * 1_000;
                let first = Timestamp(first).min(event.record.failed_at);
                assert_eq!(event.first_failed, first, "{}", case["name"]);
            }
            None => {
                assert_eq!((event.payload(), made), (text, 1), "{}", case["name"]);
                assert_eq!(event.id, "r-1");
            }
        }
        // What goes out is an envelope for everybody, and holds the same.
        let next = retried(&event, 0);
        let opened = Envelope::open(&next).unwrap();
        assert_eq!(opened.payload.get(), event.payload(), "{}", case["name"]);
        assert_eq!(opened.metadata.id.as_deref(), Some(event.id.as_str()));
    }
}

#[test]
fn a_redrive_at_the_largest_attempt_counts_from_there_too() {
    let event = r#"{"_retry_metadata": {"attempt": 2147483647, "initial_timestamp": 1767225600, "id": "r-1"}, "_original_payload": {"order": 1}}"#;
    let event = Event::of(record(event, 1, 0));
    let next = event.redriven(Timestamp(FAILED_AT));
    let failed_again = Event::of(record(&next, 1, 60));
    assert_eq!(failed_again.failure(Vec::new()).attempt.get(), 1);
}
