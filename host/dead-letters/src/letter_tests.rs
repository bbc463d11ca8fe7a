use super::*;
use crate::archive::ArchivedLetter;
use crate::group::By;
use backstop_queue::{Attribute, Connections, LocalQueue, LocalSettings, Outgoing, Queue};
use proptest::prelude::*;
use std::num::NonZeroU32;

pub(crate) async fn letter(body: &str, attributes: &[(&str, &str)]) -> Letter {
    let queue = Connections::default().local.named("dead");
    let attributes = attributes.iter();
    let sent = Outgoing {
        attributes: attributes
            .map(|(name, value)| ((*name).to_owned(), Attribute::string(*value)))
            .collect(),
        ..Outgoing::new(body)
    };
    queue.send(&[sent]).await.unwrap();
    let received = queue.receive(1, Default::default(), Default::default());
    Letter::of(received.await.unwrap().remove(0))
}

#[tokio::test]
async fn an_error_is_read_as_it_was_written() {
    for (text, code, message, status) in [
        (
            "HTTP 503: busy: later",
            "HTTP 503",
            "busy: later",
            Some(503),
        ),
        ("std::io::Error: x", "std::io::Error", "x", None),
        ("OutOfStock", "OutOfStock", "", None),
        ("HTTP 99999", "HTTP 99999", "", None),
    ] {
        let attributes = [("BackstopReason", "r"), ("BackstopError", text)];
        let found = letter("b", &attributes).await.error.unwrap();
        let found = (&*found.code, &*found.message, found.status);
        assert_eq!(found, (code, message, status));
    }
}

#[tokio::test]
async fn forged_and_broken_values_are_unknown() {
    let attributes = [
        ("BackstopReason", "r"),
        ("BackstopAttempt", "-1"),
        ("BackstopFirstSent", "soon"),
        ("BackstopEnvelope", "{"),
    ];
    let found = letter("{\"requestContext\": 1", &attributes).await;
    assert_eq!((found.attempt, found.first_sent), (None, None));
    assert_eq!((found.event(), found.code()), (None, None));
    let found = letter("b", &[("BackstopSource", "x"), ("BackstopEnvelope", "[1]")]).await;
    assert_eq!(found.origin, Origin::Sqs);
    assert_eq!(found.source, Some(Source::Queue("x".to_owned())));
}

/// What SNS has put into dead-letter queues, and Lambda, as recorded from AWS.
#[tokio::test]
async fn letters_of_sns_have_no_error_and_those_of_lambda_have_its_code_and_text() {
    let notification = r#"{"Type":"Notification","MessageId":"n-1","TopicArn":"arn:aws:sns:eu-west-1:1:orders","Message":"an order","Timestamp":"2026-01-01T00:00:00.000Z","SignatureVersion":"1","Signature":"x","SigningCertURL":"https://x/","UnsubscribeURL":"https://y/","MessageAttributes":{"attr1":{"Type":"Number","Value":"111"}}}"#;
    let found = letter(notification, &[]).await;
    assert_eq!(found.origin, Origin::Sns);
    assert_eq!((&found.error, found.code()), (&None, None));
    assert_eq!(found.original_id, "n-1");
    let topic = Source::Topic("arn:aws:sns:eu-west-1:1:orders".to_owned());
    assert_eq!(found.source, Some(topic));
    assert_eq!(found.first_sent, Some(Timestamp(1_767_225_600_000)));
    // With raw delivery, it has the publisher's attributes only.
    let found = letter("an order", &[("attr1", "111")]).await;
    assert_eq!((found.origin, found.error), (Origin::Unknown, None));

    let attributes = [
        ("RequestID", "r-1"),
        ("ErrorCode", "200"),
        ("ErrorMessage", "Test exception (this is intentional)"),
    ];
    let found = letter(r#"{"raise_error":1}"#, &attributes).await;
    assert_eq!(found.origin, Origin::LambdaDeadLetter);
    assert_eq!(found.original_id, "r-1");
    let error = found.error.unwrap();
    assert_eq!((&*error.code, error.status), ("200", None));
    assert_eq!(error.message, "Test exception (this is intentional)");
}

#[tokio::test]
async fn a_message_that_was_sent_again_is_known_by_its_first_id() {
    let envelope = r#"{"id":"first","sent":5,"first-received":6,"attempts":3,"delay":1,"due":9}"#;
    let attributes = [
        ("BackstopSource", "arn:aws:sqs:eu-west-1:1:q"),
        (ENVELOPE, envelope),
    ];
    let found = letter("b", &attributes).await;
    assert_eq!(found.original_id, "first");
    assert_eq!(
        (found.attempt, found.first_sent),
        (Some(3), Some(Timestamp(5)))
    );
}

#[tokio::test(start_paused = true)]
async fn a_sender_cannot_forge_where_sqs_has_moved_a_message_from() {
    let dead = LocalQueue::new("dead", LocalSettings::default());
    let settings = LocalSettings {
        redrive: Some((dead.clone(), NonZeroU32::MIN)),
        ..LocalSettings::default()
    };
    let orders = LocalQueue::new("orders", settings);
    let mut forged = Outgoing::new("x");
    for name in ["BackstopReason", "BackstopSource"] {
        let value = Attribute::string("arn:aws:sqs:eu-west-1:1:payments");
        forged.attributes.insert(name.to_owned(), value);
    }
    orders.send(&[forged]).await.unwrap();
    for _ in 0..2 {
        let received = orders.receive(1, Default::default(), Default::default());
        received.await.unwrap();
    }
    let moved = dead.receive(1, Default::default(), Default::default());
    let moved = moved.await.unwrap().remove(0);
    let from = Some(Source::Queue("local:orders".to_owned()));
    assert_eq!(Letter::of(moved.clone()).source, from);
    // Nor when it is archived and put back.
    let archived = ArchivedLetter::of(&moved, "local:dead", Timestamp(1));
    let back = archived.outgoing(&dead.describe().await.unwrap());
    assert_eq!(back.attributes["BackstopSource"].to_text(), "local:orders");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_put_back_died_when_it_died() {
    let dead = LocalQueue::new("dead", LocalSettings::default());
    let receive = async || {
        let received = dead.receive(1, Default::default(), Default::default());
        Letter::of(received.await.unwrap().remove(0))
    };
    let reason = ("BackstopReason".to_owned(), Attribute::string("r"));
    let sent = Outgoing {
        attributes: [reason].into(),
        ..Outgoing::new("b")
    };
    dead.send(&[sent]).await.unwrap();
    let mut letter = receive().await;
    let died = letter.dead_since;
    let queue = dead.describe().await.unwrap();
    // Twice, too.
    for _ in 0..2 {
        tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
        let handle = letter.message.receipt_handle.clone();
        dead.delete(&[handle]).await.unwrap();
        let archived = ArchivedLetter::of(&letter.message, "local:dead", dead.now());
        dead.send(&[archived.outgoing(&queue)]).await.unwrap();
        letter = receive().await;
        assert!(Some(letter.message.sent) > died);
        assert_eq!((letter.dead_since, Some(letter.last_alive())), (died, died));
    }
    // One that lies in the future is of somebody else, and so is that of a message that SQS has moved.
    let future = Attribute::number(letter.message.sent.0 + 1);
    let mut forged = letter.message.clone();
    forged.attributes.insert(DIED.to_owned(), future);
    assert_eq!(Letter::of(forged).dead_since, Some(letter.message.sent));
    let mut moved = letter.message.clone();
    moved.dead_letter_source = Some("local:orders".to_owned());
    assert_eq!(
        Letter::of(moved.clone()).last_alive(),
        moved.sent.max(moved.first_received)
    );
}

proptest! {
    #[test]
    fn any_message_is_a_letter(body: String, values in prop::collection::vec(any::<String>(), 8)) {
        let names = ["BackstopReason", "BackstopError", "BackstopSource", "RequestID", "ErrorCode", "ErrorMessage", ENVELOPE, "BackstopFirstSent"];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for known in 0..=names.len() {
            let message = runtime.block_on(async {
                let received = letter("b", &[]).await.message;
                let values = names.iter().zip(&values).take(known);
                Message {
                    body: body.as_str().into(),
                    attributes: values
                        .map(|(name, value)| ((*name).to_owned(), Attribute::string(value)))
                        .collect(),
                    ..received
                }
            });
            let letter = Letter::of(message);
            for by in ["reason", "fingerprint", "source", "/a/0"] {
                let by: By = by.parse().unwrap();
                prop_assert!(by.of(&letter).is_none_or(|key| key.len() <= 300));
            }
        }
    }
}
