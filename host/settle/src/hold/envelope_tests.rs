use super::*;
use crate::decision::{Action, DecidedBy, Decision, ErrorClass, Hold};
use crate::hold::has_room;
use crate::queue::VisibilityTimeout;
use crate::queue::ordinary_message;
use backstop_core::examples::ordinary_failure;
use backstop_traces::TraceContext;
use std::num::NonZeroU32;

fn message() -> Message {
    Message {
        attributes: [("a".to_owned(), Attribute::number(1))].into(),
        receive_count: NonZeroU32::new(3).unwrap(),
        sender: Some("AIDA:sender".to_owned()),
        group: Some("tenant".to_owned()),
        trace_header: Some("Root=1".to_owned()),
        ..ordinary_message()
    }
}

const DAY: u64 = 86_400_000;

/// The envelopes of a queue that keeps messages for four days.
fn envelopes(key: u8, fifo: bool) -> Envelopes {
    let queue = Description {
        arn: "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned(),
        fifo,
        visibility_timeout: VisibilityTimeout::ZERO,
        retention: Milliseconds(345_600_000),
        max_message_bytes: 1 << 20,
        visible: None,
        in_flight: None,
        redrive: None,
        delay: Milliseconds(0),
        delayed: None,
        access_policy: None,
    };
    Envelopes::of(&queue, EnvelopeKeys::of_this_process([key; 32]), None)
}

/// A message with this envelope, which no host made.
fn forged(envelope: &MessageEnvelope) -> Message {
    let text = serde_json::to_string(envelope).unwrap();
    let mut message = message();
    message
        .attributes
        .insert(ENVELOPE.to_owned(), Attribute::string(text));
    message
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
            down_for: None,
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
    let sent = envelopes(1, false).seal(&envelope, &original, delay.as_duration());
    assert_eq!(sent.attributes.len(), 2);

    let arrived = Timestamp(70_000);
    let mut opened = delivered(sent, "m-2", arrived);
    assert!(!envelopes(1, false).open(&mut opened, arrived));
    assert_eq!(opened.kept_since, arrived);
    let expected = Message {
        receive_count: NonZeroU32::new(4).unwrap(),
        kept_since: arrived,
        received: opened.received,
        envelope: Some(Box::new(MessageEnvelope {
            other_id: Some("m-2".to_owned()),
            ..envelope.clone()
        })),
        ..original
    };
    assert_eq!(opened, expected);
    assert_eq!((&*opened.id, opened.received_as()), ("m-1", "m-2"));
    assert_eq!(opened.original_id(), None);
    assert_eq!(envelope.early_by(Timestamp(69_000)), None);
    let early = envelope.early_by(Timestamp(10_000));
    assert_eq!(early, Some(Duration::from_secs(60)));
}

#[test]
fn an_envelope_with_impossible_values_is_none() {
    let now = Timestamp(10_000);
    let good = after(&message(), &failure(1, now), Milliseconds(1), &decided(""));
    let text = |envelope: &MessageEnvelope| serde_json::to_string(envelope).unwrap();
    let forged = [
        text(&MessageEnvelope {
            attempts: u32::MAX,
            ..good.clone()
        }),
        text(&MessageEnvelope {
            hops: u32::MAX,
            ..good.clone()
        }),
        text(&MessageEnvelope {
            id: String::new(),
            ..good.clone()
        }),
        text(&MessageEnvelope {
            id: "x".repeat(2_000),
            ..good.clone()
        }),
        text(&MessageEnvelope {
            due: Timestamp(u64::MAX),
            ..good.clone()
        }),
        text(&MessageEnvelope {
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
        envelopes(1, false).open(&mut opened, now);
        assert_eq!(opened, message);
    }
    let read = MessageEnvelope {
        is_verified: false,
        ..good.clone()
    };
    assert_eq!(parse(&text(&good), now), Some(read));
}

#[test]
fn an_envelope_is_never_larger_than_the_room_that_is_kept_for_it() {
    let largest = MessageEnvelope {
        id: "\"".repeat(ID_BYTES / 2),
        sent: Timestamp(u64::MAX),
        first_received: Timestamp(u64::MAX),
        sender: Some("s".repeat(SENDER_BYTES)),
        attempts: u32::MAX,
        delay: Milliseconds(u32::MAX),
        due: Timestamp(u64::MAX),
        hops: u32::MAX,
        policy: "p".repeat(POLICY_BYTES),
        code: "c".repeat(CARRIED_BYTES),
        class: "c".repeat(CARRIED_BYTES),
        failed: Some(Timestamp(u64::MAX)),
        trace: TraceContext::of_traceparent(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        is_verified: true,
        other_id: None,
    };
    let message = message();
    let grown = envelopes(1, false)
        .seal(&largest, &message, Duration::ZERO)
        .size()
        - message.size();
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

#[test]
fn an_envelope_that_no_key_verifies_concerns_its_own_message_only() {
    let now = Timestamp(10_000);
    let stranger = MessageEnvelope {
        id: "victim".to_owned(),
        sender: Some("AIDA:trusted".to_owned()),
        sent: Timestamp(500),
        first_received: Timestamp(600),
        attempts: 2,
        policy: "\u{1b}[2J".to_owned(),
        ..after(
            &message(),
            &failure(2, now),
            Milliseconds(5_000),
            &decided("p"),
        )
    };
    let found = forged(&stranger);
    let signed_elsewhere = {
        let sent = envelopes(2, false).seal(&stranger, &message(), Duration::ZERO);
        let mut found = message();
        found.attributes = sent.attributes;
        found
    };
    for found in [found, signed_elsewhere] {
        let mut opened = found.clone();
        assert!(envelopes(1, false).open(&mut opened, now));
        let envelope = opened.envelope.take().unwrap();
        let own = message();
        assert_eq!((&opened.id, &opened.sender), (&own.id, &own.sender));
        assert_eq!((&envelope.id, &envelope.sender), (&own.id, &own.sender));
        assert_eq!(envelope.policy, "");
        // What it says about its own message holds.
        assert_eq!(
            (opened.sent, opened.first_received),
            (Timestamp(500), Timestamp(600))
        );
        assert_eq!((opened.receive_count.get(), envelope.attempts), (5, 2));
        assert_eq!(
            (envelope.due, envelope.delay),
            (stranger.due, stranger.delay)
        );
    }
}

#[test]
fn a_claimed_due_time_is_bounded_by_the_queue_and_by_max_age() {
    let now = Timestamp(10_000);
    let sent = message().kept_since;
    let claim = |due: u64| {
        let envelope = after(&message(), &failure(1, now), Milliseconds(1), &decided(""));
        forged(&MessageEnvelope {
            due: Timestamp(due),
            ..envelope
        })
    };
    let due = |envelopes: &Envelopes, due: u64| {
        let mut message = claim(due);
        envelopes.open(&mut message, now);
        message.envelope.unwrap().due.0
    };
    let of_queue = envelopes(1, false);
    let longest = sent.0 + 4 * DAY - 15 * 60_000;
    assert_eq!(due(&of_queue, 3 * DAY), 3 * DAY);
    assert_eq!(due(&of_queue, 14 * DAY), longest);
    let of_age = Envelopes {
        max_age: Some(Milliseconds(3_600_000)),
        ..envelopes(1, false)
    };
    assert_eq!(due(&of_age, 3 * DAY), sent.0 + 3_600_000);
    assert_eq!(due(&of_age, 5), 5);
    // A message that is too old already is due now.
    let old = Envelopes {
        max_age: Some(Milliseconds(1)),
        ..envelopes(1, false)
    };
    assert_eq!(due(&old, 3 * DAY), now.0);
}

#[test]
fn nothing_is_opened_on_a_fifo_queue() {
    let now = Timestamp(10_000);
    let envelope = after(
        &message(),
        &failure(1, now),
        Milliseconds(5_000),
        &decided(""),
    );
    let found = forged(&envelope);
    let mut opened = found.clone();
    assert!(!envelopes(1, true).open(&mut opened, now));
    assert_eq!(opened, found);
}
