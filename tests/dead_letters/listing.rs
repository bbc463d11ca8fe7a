//! `backstop dlq list` and `show`: letters of every origin, of any size and content, on queues that others read too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that can't go on fails"
)]

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use backstop_tests::backstop::{serve, text};
use backstop_tests::emulator::{MOTO, fauxqs, ministack, moto};
use backstop_tests::eventually;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function, invoke, send_failures};
use backstop_tests::worker::{Worker, numbered};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{Given, World, binary, failed, number, of_backstop, string, succeeded};

/// The groups as pairs of their key and their size.
fn groups(listing: &Value) -> Vec<(Value, u64)> {
    let groups = listing["queues"][0]["groups"].as_array().unwrap();
    let pair = |group: &Value| (group["by"].clone(), group["count"].as_u64().unwrap());
    groups.iter().map(pair).collect()
}

async fn all_are_listed_and_stay(endpoint: &str) {
    let world = World::standard(endpoint).await;
    for number in 0..60 {
        let (reason, error) = match number % 3 {
            0 => (
                "permanent: HTTP 404",
                format!("HTTP 404: no order {number}"),
            ),
            _ => ("after 8 attempts", format!("HTTP 503: busy for {number} s")),
        };
        let body = format!(r#"{{"order": {{"customer": "c-{}"}}}}"#, number % 2);
        let class = if number % 3 == 0 {
            "permanent"
        } else {
            "transient"
        };
        world.put(of_backstop(&body, reason, class, &error)).await;
    }
    let listing = world.json("list", &[]).await;
    let expected = [
        (
            json!({"reason": "after 8 attempts", "code": "HTTP 503"}),
            40,
        ),
        (
            json!({"reason": "permanent: HTTP 404", "code": "HTTP 404"}),
            20,
        ),
    ];
    assert_eq!(groups(&listing), expected);
    assert_eq!(listing["queues"][0]["seen"], 60);
    assert_eq!(listing["queues"][0]["ended"], "empty");

    // Released at once: the next listing sees them all.
    let by = ["--by", "fingerprint", "--by", "/order/customer"];
    let listing = world.json("list", &by).await;
    let found = groups(&listing);
    assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 60);
    assert_eq!(found.len(), 4, "{found:?}");
    let fingerprint = found[0].0["fingerprint"].as_str().unwrap();
    assert!(fingerprint.ends_with("HTTP 503: busy for # s"), "{found:?}");

    let digits = &fingerprint[..8];
    let flags = ["--fingerprint", digits, "--where", "/order/customer=c-1"];
    let save = ["--letters", "--save", "ids.jsonl"];
    let lines = world.run("list", &[&flags[..], &save].concat()).await;
    assert_eq!(lines.lines().count(), 20, "{lines}");
    let listing = world
        .json("list", &["--ids", "ids.jsonl", "--by", "class"])
        .await;
    assert_eq!(groups(&listing), [(json!({"class": "transient"}), 20)]);
    assert_eq!(world.queues.dead().await, 60);
}

#[tokio::test]
async fn letters_are_grouped_filtered_and_left_on_ministack() {
    all_are_listed_and_stay(&ministack().endpoint).await;
}

#[tokio::test]
async fn letters_are_grouped_filtered_and_left_on_moto() {
    let _one_client = MOTO.lock().await;
    all_are_listed_and_stay(&moto().endpoint).await;
}

#[tokio::test]
async fn letters_are_grouped_filtered_and_left_on_fauxqs() {
    all_are_listed_and_stay(&fauxqs().endpoint).await;
}

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
    let error = |code: &str, text: &str| {
        vec![
            (
                "RequestID".to_owned(),
                string("4f3f0f0e-33d8-4d5e-8a3a-000000000001"),
            ),
            ("ErrorCode".to_owned(), string(code)),
            ("ErrorMessage".to_owned(), string(text)),
        ]
    };
    world
        .put(Given {
            body: r#"{"order": 7}"#,
            attributes: error("200", "Task timed out after 3.00 seconds"),
            group: None,
        })
        .await;
    let destination = json!({
        "version": "1.0", "timestamp": "2026-01-01T00:00:00.000Z",
        "requestContext": {"requestId": "9d2c", "functionArn": "arn:aws:lambda:us-east-1:1:function:ship:$LATEST", "condition": "RetriesExhausted", "approximateInvokeCount": 3},
        "requestPayload": {"order": 8},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": "no stock", "errorType": "OutOfStock"},
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
        "Message": "an order", "Timestamp": "2026-01-01T00:00:00.000Z",
    });
    let notification = notification.to_string();
    let attributes = error("InvalidClientTokenId", "no such endpoint");
    world
        .put(Given {
            body: &notification,
            attributes,
            group: None,
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
        (
            "sns",
            json!("InvalidClientTokenId"),
            json!("arn:aws:sns:us-east-1:1:orders"),
        ),
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
async fn a_queue_that_would_move_letters_when_they_are_read_is_refused() {
    let world = World::standard(&ministack().endpoint).await;
    world.queues.send(["an order".to_owned()]).await;
    world.queues.redrive_after(3).await;
    let arguments = [
        "dlq",
        "list",
        &world.queues.url,
        "--endpoint-url",
        &world.queues.endpoint,
    ];
    let output = world.plain(&arguments).output().await.unwrap();
    let (code, said) = failed(&output);
    assert_eq!(code, 5);
    assert!(said.contains("has a redrive policy of its own"), "{said}");
    assert!(said.contains("-dead after 3 receives"), "{said}");
    // It was not received at all.
    let received = world.queues.take_left().await;
    let count = &received["an order"].attributes.as_ref().unwrap();
    let count = count
        .iter()
        .find(|(name, _)| name.as_str() == "ApproximateReceiveCount");
    assert_eq!(count.map(|(_, count)| count.as_str()), Some("1"));
}

#[tokio::test]
async fn a_listing_that_is_interrupted_makes_its_letters_visible() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..30 {
        world
            .put(Given {
                body: &number.to_string(),
                ..Given::default()
            })
            .await;
    }
    let child = world.command("list", &["--limit", "25"]).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let id = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    let _ = kill_process(id, Signal::INT);
    let output = child.wait_with_output().await.unwrap();
    succeeded(&output);
    assert_eq!(world.visible().await, 30);
}

#[tokio::test]
async fn letters_that_others_hold_are_counted_and_stay_theirs() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..20 {
        world
            .put(Given {
                body: &number.to_string(),
                ..Given::default()
            })
            .await;
    }
    let client = &world.queues.client;
    let theirs = client
        .receive_message()
        .queue_url(&world.queues.dead_letters)
        .max_number_of_messages(5)
        .visibility_timeout(600)
        .send()
        .await
        .unwrap();
    let theirs = theirs.messages.unwrap();
    let listing = world.json("list", &["--by", "origin"]).await;
    let queue = &listing["queues"][0];
    assert_eq!(queue["seen"], 20 - theirs.len());
    assert_eq!(queue["held-by-others"], theirs.len());
    // A consumer that works meanwhile loses nothing: what it deletes is gone, the rest is there.
    for message in &theirs {
        client
            .delete_message()
            .queue_url(&world.queues.dead_letters)
            .receipt_handle(message.receipt_handle().unwrap())
            .send()
            .await
            .unwrap();
    }
    assert_eq!(world.visible().await, 20 - theirs.len());
}

#[tokio::test]
async fn a_group_is_blocked_for_no_longer_than_the_listing_and_keeps_its_order() {
    let world = World::fifo(&ministack().endpoint).await;
    for number in 0..12 {
        let body = format!("{}-{}", number % 3, number / 3);
        let group = (number % 3).to_string();
        world
            .put(Given {
                body: &body,
                attributes: Vec::new(),
                group: Some(&group),
            })
            .await;
    }
    let listing = world.json("list", &["--by", "origin"]).await;
    assert_eq!(listing["queues"][0]["seen"], 10, "{listing}");
    let shown = world.run("list", &[]).await;
    let behind = "10 letters seen of about 12; SQS shows the others when those before them in their groups have left the queue";
    assert!(shown.contains(behind), "{shown}");
    let mut received = Vec::new();
    loop {
        let client = &world.queues.client;
        let receive = client
            .receive_message()
            .queue_url(&world.queues.dead_letters);
        let answer = receive.max_number_of_messages(10).send().await.unwrap();
        let messages = answer.messages.unwrap_or_default();
        if messages.is_empty() {
            break;
        }
        for message in messages {
            received.push(message.body.unwrap());
            let delete = client
                .delete_message()
                .queue_url(&world.queues.dead_letters);
            delete
                .receipt_handle(message.receipt_handle.unwrap())
                .send()
                .await
                .unwrap();
        }
    }
    for group in ["0", "1", "2"] {
        let of_group: Vec<_> = received.iter().filter(|it| it.starts_with(group)).collect();
        let expected: Vec<_> = (0..4).map(|number| format!("{group}-{number}")).collect();
        assert_eq!(of_group, expected.iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_consumer_that_works_while_others_list_handles_every_letter() {
    let world = World::standard(&ministack().endpoint).await;
    let bodies = numbered("fine", 300);
    for chunk in bodies.chunks(50) {
        let puts = chunk.iter().map(|body| {
            world.put(Given {
                body,
                ..Given::default()
            })
        });
        futures_util::future::join_all(puts).await;
    }
    // The dead-letter queue is the queue of a consumer.
    let mut queues = world.queues.clone();
    std::mem::swap(&mut queues.url, &mut queues.dead_letters);
    let worker = Worker::answering(|_| 200).await;
    let consumer = serve(&queues, &worker, &[]).await;
    while world.queues.dead().await > 0 {
        world.run("list", &[]).await;
    }
    consumer.stop().await;
    let mut handled: Vec<_> = worker.attempts().into_iter().map(|it| it.body).collect();
    handled.sort();
    handled.dedup();
    assert_eq!(handled.len(), 300);
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
