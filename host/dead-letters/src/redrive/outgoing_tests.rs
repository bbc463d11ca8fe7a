use backstop_core::failure::Timestamp;
use backstop_queue::dead_letter::TRACE;
use backstop_queue::envelope::{ENVELOPE, EnvelopeKeys};
use backstop_queue::{Attribute, Connections, Description, Message, Queue, ordinary_message};

use super::outgoing::{event, invocation, message};
use crate::letter::Letter;
use crate::triage::Attempts;
use backstop_traces::TraceContext;

fn received(body: &str, attributes: &[(&str, &str)]) -> Letter {
    Letter::of(Message {
        body: body.into(),
        attributes: attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Attribute::string(*value)))
            .collect(),
        group: Some("tenant".to_owned()),
        trace_header: Some("Root=1-a;Parent=b;Sampled=1;Lineage=c:1|d:0".to_owned()),
        ..ordinary_message()
    })
}

async fn queue(name: &str) -> Description {
    let queue = Connections::default().local.named(name);
    queue.describe().await.unwrap()
}

const OF_BACKSTOP: [(&str, &str); 7] = [
    ("BackstopReason", "permanent"),
    ("BackstopMessageId", "first"),
    ("BackstopAttempt", "7"),
    ("BackstopClass", "permanent"),
    ("BackstopError", "HTTP 404"),
    ("BackstopFirstSent", "900"),
    ("tenant", "t-1"),
];

fn names(outgoing: &backstop_queue::Outgoing) -> Vec<&str> {
    outgoing.attributes.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_message_keeps_what_is_the_senders_and_what_identifies_it() {
    let letter = received("body", &OF_BACKSTOP);
    let target = queue("orders").await;
    let reset = |letter: &Letter, target: &Description| {
        let body = letter.message.body.clone();
        message(
            letter,
            body,
            Attempts::Reset,
            "run",
            target,
            None,
            Timestamp(5_000),
            None,
        )
        .unwrap()
    };
    let sent = reset(&letter, &target);
    assert_eq!(
        names(&sent),
        ["BackstopFirstSent", "BackstopMessageId", "tenant"]
    );
    assert_eq!(
        (sent.body.as_ref(), sent.group.as_deref()),
        ("body", Some("tenant"))
    );
    assert_eq!(sent.deduplication_id, None);
    // A redrive starts a new chain of invocations.
    assert_eq!(
        sent.trace_header.as_deref(),
        Some("Root=1-a;Parent=b;Sampled=1")
    );
    let fifo = reset(&letter, &queue("orders.fifo").await);
    assert_eq!(fifo.deduplication_id.as_deref(), Some("run-m-1"));
    let of_lambda = [
        ("RequestID", "r-1"),
        ("ErrorCode", "200"),
        ("ErrorMessage", "x"),
        ("a", "b"),
    ];
    assert_eq!(names(&reset(&received("{}", &of_lambda), &target)), ["a"]);
    // What has these names by chance is the sender's.
    assert_eq!(
        names(&reset(&received("{}", &[("ErrorCode", "x")]), &target)),
        ["ErrorCode"]
    );
}

#[tokio::test]
async fn the_envelope_of_kept_attempts_is_signed_for_its_target_if_there_are_keys() {
    let (target, other) = (queue("orders").await, queue("other").await);
    let keys = EnvelopeKeys::of_this_process([7; 32]);
    let keep = |target: &Description, keys: Option<&EnvelopeKeys>| {
        let letter = received("body", &OF_BACKSTOP);
        let (body, now) = (letter.message.body.clone(), Timestamp(5_000));
        let sent = message(
            &letter,
            body,
            Attempts::Keep,
            "run",
            target,
            keys,
            now,
            None,
        );
        let sent = sent.unwrap();
        let envelope = sent.attributes[ENVELOPE].to_text();
        (sent, envelope)
    };
    let (_, unsigned) = keep(&target, None);
    let (sent, signed) = keep(&target, Some(&keys));
    assert_eq!(signed, keys.sign(&target.arn, (&sent).into(), &unsigned));
    assert!(signed.contains(r#""id":"first""#) && signed.contains(r#""mac":""#));
    assert_ne!(signed, keep(&other, Some(&keys)).1);
}

#[tokio::test]
async fn kept_attempts_travel_in_an_envelope_if_there_is_room() {
    let target = queue("orders").await;
    let keep = |letter: &Letter| {
        let body = letter.message.body.clone();
        message(
            letter,
            body,
            Attempts::Keep,
            "run",
            &target,
            None,
            Timestamp(5_000),
            None,
        )
    };
    let sent = keep(&received("body", &OF_BACKSTOP)).unwrap();
    assert_eq!(
        names(&sent),
        ["BackstopEnvelope", "BackstopMessageId", "tenant"]
    );
    let envelope = sent.attributes["BackstopEnvelope"].to_text();
    for part in [
        r#""id":"first""#,
        r#""attempts":7"#,
        r#""sent":900"#,
        r#""due":5000"#,
    ] {
        assert!(envelope.contains(part), "{envelope}");
    }
    let mut many: Vec<_> = OF_BACKSTOP.into();
    many.extend([("a", "1"), ("b", "1"), ("c", "1")]);
    // Ten, of which five are left.
    assert_eq!(keep(&received("body", &many)).unwrap().attributes.len(), 6);
    let nine = ["1", "2", "3", "4", "5", "6", "7", "8", "9"].map(|it| (it, "x"));
    let own = [("BackstopReason", "r"), ("BackstopAttempt", "2")];
    let full: Vec<_> = nine.into_iter().chain([("10", "x")]).chain(own).collect();
    let refused = keep(&received("body", &full)).unwrap_err();
    assert!(refused.contains("no room for its attempts"), "{refused}");
    // Nothing is known of its attempts.
    assert_eq!(
        names(&keep(&received("body", &[("a", "b")])).unwrap()),
        ["a"]
    );
}

#[test]
fn a_function_gets_its_event_as_it_was() {
    let record = |payload: &str| {
        format!(
            r#"{{"version":"1.0","requestContext":{{"requestId":"r","functionArn":"arn:aws:lambda:eu-west-1:1:function:f","condition":"RetriesExhausted"}},"requestPayload":{payload},"responsePayload":{{"errorType":"E"}}}}"#
        )
    };
    let envelope = r#"{"_retry_metadata":{"attempt":3,"initial_timestamp":1},"_original_payload":{"order": 1.10}}"#;
    for (body, attributes, attempts, expected) in [
        (
            record(r#"{"order": 1.10}"#),
            &[][..],
            Attempts::Reset,
            Ok(r#"{"order": 1.10}"#),
        ),
        (
            record(envelope),
            &[],
            Attempts::Reset,
            Ok(r#"{"order": 1.10}"#),
        ),
        (record(envelope), &[], Attempts::Keep, Ok(envelope)),
        // The Lambda retry handler's letters have the record, too.
        (record("7"), &OF_BACKSTOP, Attempts::Reset, Ok("7")),
        (
            r#"{"a": [1]}"#.to_owned(),
            &[("RequestID", "r"), ("ErrorCode", "200")],
            Attempts::Reset,
            Ok(r#"{"a": [1]}"#),
        ),
        (
            "no JSON".to_owned(),
            &[],
            Attempts::Reset,
            Err("is not JSON"),
        ),
    ] {
        let letter = received(&body, attributes);
        match (event(&letter, attempts, "f"), expected) {
            (Ok(event), Ok(expected)) => assert_eq!(event, expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (event, expected) => panic!("{event:?}, not {expected:?}"),
        }
    }
    // What the retry handler knows by an id keeps it, in the envelope.
    let ours = envelope.replace("\"initial", "\"id\":\"first\",\"initial");
    for (body, attributes, id, attempt) in [
        (record("7"), &OF_BACKSTOP[..], "r", 2),
        (record(&ours), &[], "first", 4),
        (record(&ours), &OF_BACKSTOP, "first", 4),
    ] {
        let letter = received(&body, attributes);
        for attempts in [Attempts::Reset, Attempts::Keep] {
            let payload = event(&letter, attempts, "f").unwrap();
            assert!(!payload.contains("_retry_metadata"), "{payload}");
            let sent =
                invocation(&letter, payload.clone(), attempts, "f", Timestamp(9_000)).unwrap();
            let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
            let metadata = &sent["_retry_metadata"];
            assert_eq!(
                (&metadata["id"], &metadata["attempt"]),
                (&id.into(), &attempt.into())
            );
            // The policy counts from here.
            let is_reset = attempts == Attempts::Reset;
            assert_eq!(metadata.get("redriven").is_some(), is_reset, "{sent}");
            let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
            assert_eq!(sent["_original_payload"], payload);
        }
    }
    let plain = received(&record("7"), &[]);
    let sent = invocation(
        &plain,
        "8".to_owned(),
        Attempts::Reset,
        "f",
        Timestamp(9_000),
    );
    assert_eq!(sent.unwrap(), "8");
    let notification = r#"{"Type":"Notification","TopicArn":"arn:aws:sns:eu-west-1:1:t","Message":"m","SigningCertURL":"c","UnsubscribeURL":"u"}"#;
    let event = event(&received(notification, &[]), Attempts::Reset, "f").unwrap();
    let event: serde_json::Value = serde_json::from_str(&event).unwrap();
    // As SNS invokes a function: other names than in a queue, and nothing left out.
    let expected = serde_json::json!({"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "Message": "m", "SigningCertUrl": "c", "UnsubscribeUrl": "u", "Subject": null, "MessageAttributes": {}});
    assert_eq!(event["Records"][0]["Sns"], expected);
}

#[test]
fn only_the_function_of_an_event_gets_it_in_an_envelope() {
    let arn = "arn:aws:lambda:eu-west-1:1:function:f";
    let payload = r#"{"_retry_metadata":{"attempt":3,"id":"first","initial_timestamp":1},"_original_payload":7}"#;
    for (qualifier, name, is_its_own) in [
        ("", "f", true),
        (":$LATEST", "f", true),
        (":live", "f:canary", true),
        ("", "1:function:f", true),
        ("", "1:function:f:live", true),
        (":live", arn, true),
        ("", &format!("{arn}:live"), true),
        ("", "g", false),
        (":live", "live", false),
        ("", "other-f", false),
        ("", "2:function:f", false),
        ("", "arn:aws:lambda:us-east-1:1:function:f", false),
        ("", "function", false),
    ] {
        let record = format!(
            r#"{{"version":"1.0","requestContext":{{"requestId":"r","functionArn":"{arn}{qualifier}","condition":"RetriesExhausted"}},"requestPayload":{payload},"responsePayload":{{"errorType":"E"}}}}"#
        );
        let letter = received(&record, &OF_BACKSTOP);
        for attempts in [Attempts::Reset, Attempts::Keep] {
            let event = event(&letter, attempts, name).unwrap();
            assert_eq!(event, "7", "{name}");
            let sent = invocation(&letter, event, attempts, name, Timestamp(9_000)).unwrap();
            assert_eq!(sent != "7", is_its_own, "{arn}{qualifier} {name}: {sent}");
        }
    }
}

#[tokio::test]
async fn a_letter_that_its_target_can_t_take_is_refused_with_the_reason() {
    let target = Description {
        max_message_bytes: 1_024,
        ..queue("orders").await
    };
    let letter = received(&"x".repeat(1_025), &[]);
    let body = letter.message.body.clone();
    let refused = message(
        &letter,
        body,
        Attempts::Reset,
        "run",
        &target,
        None,
        Timestamp(1),
        None,
    );
    assert!(refused.unwrap_err().contains("accepts only 1024"));
    let huge = received(&format!("\"{}\"", "x".repeat(1 << 20)), &[]);
    assert!(
        event(&huge, Attempts::Reset, "f")
            .unwrap_err()
            .contains("Lambda accepts only")
    );
}

#[tokio::test]
async fn a_message_says_which_span_sent_it_back_if_it_has_room() {
    const LAST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const REDRIVE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b1902b7-01";
    let target = queue("orders").await;
    let names: Vec<_> = (0..9).map(|number| number.to_string()).collect();
    let nine: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let with = [(TRACE, LAST), ("traceparent", "the sender's")];
    for (attributes, span, expected) in [
        (&with[..], None, Some(LAST)),
        (&with, Some(REDRIVE), Some(REDRIVE)),
        (&[], Some(REDRIVE), Some(REDRIVE)),
        // One is left for the envelope of kept attempts.
        (&nine, Some(REDRIVE), None),
    ] {
        let letter = received("body", attributes);
        let body = letter.message.body.clone();
        let (attempts, now) = (Attempts::Reset, Timestamp(1));
        let span = span.and_then(TraceContext::of_traceparent);
        let sent = message(&letter, body, attempts, "run", &target, None, now, span).unwrap();
        let trace = sent.attributes.get(TRACE).map(Attribute::to_text);
        assert_eq!(trace.as_deref(), expected, "{attributes:?}");
        let sender = sent.attributes.get("traceparent").map(Attribute::to_text);
        assert!(sender.is_none_or(|it| it == "the sender's"));
    }
}
