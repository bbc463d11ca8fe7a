//! Letters of every origin, of any size and content, as `backstop dlq list` and `show` show them.

use aws_sdk_sqs::types::QueueAttributeName;
use backstop_tests::backstop::text;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function, invoke, send_failures};
use serde_json::{Value, json};

use crate::world::{Given, World, binary, failed, groups, number, of_backstop, string, succeeded};

/// Letters as each service writes them.
async fn of_every_origin(world: &World) {
    world
        .put(of_backstop(
            "backstop",
            "permanent: HTTP 404",
            "permanent",
            "HTTP 404: gone",
        ))
        .await;
    // Moved by SQS after one receive.
    world.queues.redrive_after(1).await;
    world.queues.send(["moved".to_owned()]).await;
    for _ in 0..2 {
        let receive = world.queues.client.receive_message();
        let receive = receive.queue_url(&world.queues.url).visibility_timeout(0);
        receive.send().await.unwrap();
    }
    // As recorded from AWS: Lambda's code is a number, and SNS adds no attribute.
    let error = vec![
        (
            "RequestID".to_owned(),
            string("4f3f0f0e-33d8-4d5e-8a3a-000000000001"),
        ),
        ("ErrorCode".to_owned(), number(200)),
        (
            "ErrorMessage".to_owned(),
            string("Task timed out after 3.00 seconds"),
        ),
    ];
    world
        .put(Given {
            body: r#"{"order": 7}"#,
            attributes: error,
            group: None,
        })
        .await;
    let destination = json!({
        "version": "1.0", "timestamp": "2026-01-01T00:00:00.000Z",
        "requestContext": {"requestId": "9d2c", "functionArn": "arn:aws:lambda:us-east-1:1:function:ship:$LATEST", "condition": "RetriesExhausted", "approximateInvokeCount": 3},
        "requestPayload": {"order": 8},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": "no stock", "errorType": "OutOfStock", "requestId": "9d2c", "stackTrace": ["  File \"/var/task/handler.py\", line 7, in handler\n"]},
    });
    let destination = destination.to_string();
    world
        .put(Given {
            body: &destination,
            ..Given::default()
        })
        .await;
    let notification = json!({
        "Type": "Notification", "MessageId": "sns-1", "TopicArn": "arn:aws:sns:us-east-1:1:orders",
        "Message": "an order", "Timestamp": "2026-01-01T00:00:00.000Z", "SignatureVersion": "1", "Signature": "x",
        "SigningCertURL": "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-x.pem",
        "UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=x",
        "MessageAttributes": {"attr1": {"Type": "Number", "Value": "111"}},
    });
    let notification = notification.to_string();
    world
        .put(Given {
            body: &notification,
            ..Given::default()
        })
        .await;
    world
        .put(Given {
            body: "somebody's",
            ..Given::default()
        })
        .await;
}

#[tokio::test]
async fn letters_of_every_origin_say_what_is_known_of_them() {
    let world = World::standard(&ministack().endpoint).await;
    of_every_origin(&world).await;
    let listing = world
        .json(
            "list",
            &["--by", "origin", "--by", "code", "--by", "source"],
        )
        .await;
    let arn = world.queues.arn().await;
    let mut found = groups(&listing);
    found.sort_by_key(|(by, _)| by["origin"].to_string());
    let function = "arn:aws:lambda:us-east-1:1:function:ship:$LATEST";
    let expected = [
        ("backstop", json!("HTTP 404"), Value::Null),
        ("lambda-dead-letter", json!("200"), Value::Null),
        ("lambda-destination", json!("OutOfStock"), json!(function)),
        ("sns", Value::Null, json!("arn:aws:sns:us-east-1:1:orders")),
        ("sqs", Value::Null, json!(arn)),
        ("unknown", Value::Null, Value::Null),
    ];
    let expected = expected.map(|(origin, code, source)| {
        (json!({"origin": origin, "code": code, "source": source}), 1)
    });
    assert_eq!(found, expected);

    let shown = world
        .json("list", &["--letters", "--source", "ship:*"])
        .await;
    assert_eq!(shown["original-id"], "9d2c");
    assert_eq!(shown["attempt"], 3);
    let id = shown["id"].as_str().unwrap();
    let text = world.run("show", &[id]).await;
    for expected in [
        "origin       lambda-destination",
        "error        OutOfStock: no stock",
        "class        unknown",
        "\n  \"requestPayload\": {\n    \"order\": 8\n  }",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(world.queues.dead().await, 6);
}

#[tokio::test]
async fn what_a_letter_contains_reaches_no_terminal_and_is_shown_whole() {
    let world = World::standard(&ministack().endpoint).await;
    // SQS allows C1 controls and the characters that change the direction of text.
    let evil = "{\"a\": 1.10, \"b\": \"\u{9b}31m\u{202e}\u{7f}\", \"c\": 10000000000000000000001";
    let mut letter = of_backstop(
        evil,
        "because \u{9b}2J\u{202e}",
        "\u{9b}K",
        "E\u{9b}1: \u{85}x",
    );
    letter
        .attributes
        .push(("mine".to_owned(), string("\u{9b}5m")));
    letter
        .attributes
        .push(("bytes".to_owned(), binary(&[0, 27, 255])));
    letter.attributes.push(("count".to_owned(), number(7)));
    assert_eq!(letter.attributes.len(), 10);
    let id = world.put(letter).await;
    let harmless = |shown: &str| {
        let is_harmful = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.contains(is_harmful), "{shown:?}");
    };
    for (name, flags) in [
        ("list", &["--letters"][..]),
        ("list", &["--letters", "--json"]),
        (
            "list",
            &["--by", "class", "--by", "reason", "--by", "fingerprint"],
        ),
        ("list", &["--by", "class", "--json"]),
        ("show", &[&id]),
        ("show", &[&id, "--json"]),
    ] {
        let output = world.command(name, flags).output().await.unwrap();
        harmless(&succeeded(&output));
        harmless(&text(&output.stderr));
    }
    let shown = world.json("show", &[&id]).await;
    assert_eq!(shown["body"], evil);
    let binary = json!({"type": "Binary.gzip", "base64": "ABv/"});
    assert_eq!(shown["attributes"]["bytes"], binary);
    assert_eq!(shown["attributes"].as_object().unwrap().len(), 10);
    let text = world.run("show", &[&id]).await;
    assert!(text.contains(r#""b": "\u{9b}31m\u{202e}\u{7f}""#), "{text}");
    // `--raw` is the body, byte for byte.
    let raw = world.run("show", &[&id, "--raw"]).await;
    assert_eq!(raw, evil);
    // Whoever knows the message finds its letter.
    let original = shown["original-id"].as_str().unwrap();
    assert_eq!(world.json("show", &[original]).await["id"], shown["id"]);
    let missing = world.command("show", &["nobody"]).output().await.unwrap();
    let (code, said) = failed(&missing);
    assert_eq!(code, 1);
    assert!(said.contains("not found: nobody"), "{said}");
}

#[tokio::test]
async fn a_mebibyte_is_shown_and_counted() {
    let world = World::standard(&ministack().endpoint).await;
    let body = "x".repeat((1 << 20) - 2_000);
    let id = world
        .put(of_backstop(&body, "too large", "permanent", "TooLarge"))
        .await;
    for _ in 0..5 {
        let more = of_backstop(&body, "too large", "permanent", "TooLarge");
        world.put(more).await;
    }
    let listing = world.json("list", &["--by", "code"]).await;
    assert_eq!(groups(&listing), [(json!({"code": "TooLarge"}), 6)]);
    let raw = world.run("show", &[&id, "--raw"]).await;
    assert_eq!(raw.len(), body.len());
}

#[tokio::test]
async fn the_record_of_a_real_function_says_why_it_failed() {
    let endpoint = &ministack().endpoint;
    let world = World::standard(endpoint).await;
    let name = format!("dies-{}", std::process::id());
    let function = Function::python(FAILS_WHEN_TOLD)
        .make(endpoint, &name)
        .await;
    let client = &world.queues.client;
    let described = client
        .get_queue_attributes()
        .queue_url(&world.queues.dead_letters)
        .attribute_names(QueueAttributeName::QueueArn)
        .send()
        .await
        .unwrap();
    let arn = described.attributes.unwrap()[&QueueAttributeName::QueueArn].clone();
    send_failures(endpoint, &name, &arn).await;
    invoke(endpoint, &name, &json!({"fail": true, "order": 7})).await;
    eventually("its record is there", || async {
        world.queues.dead().await == 1
    })
    .await;
    let letter = world
        .json("list", &["--letters", "--origin", "lambda-destination"])
        .await;
    assert_eq!(letter["error"]["code"], "OutOfStock");
    assert_eq!(letter["error"]["message"], "none left");
    let source = letter["source"]["function"].as_str().unwrap();
    assert!(source.starts_with(&function), "{source}");
    let shown = world
        .run(
            "list",
            &["--where", "/requestPayload/order=7", "--by", "source"],
        )
        .await;
    assert!(shown.contains(&function), "{shown}");
}
