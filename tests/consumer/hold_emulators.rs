//! Messages that are sent again, by real processes over the real SDK: hosts killed, SQS's limit in flight, messages without room for an envelope.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName as Q,
};
use backstop_tests::aws::{Queues, text};
use backstop_tests::backstop::{Running, serve};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::Worker;
use serde_json::Value;

const LINEAR: [&str; 4] = ["--policy", "linear", "--set", "base=1s"];

async fn queues(attributes: &[(Q, &str)]) -> Queues {
    let mut all = vec![(Q::VisibilityTimeout, "3")];
    all.extend_from_slice(attributes);
    Queues::standard(&ministack().endpoint, &all).await
}

/// A worker that fails the first attempts of each message.
async fn failing(attempts: u32) -> Worker {
    Worker::answering(move |attempt| {
        if attempt.receive_count <= attempts {
            503
        } else {
            200
        }
    })
    .await
}

/// The file with the key of all hosts.
pub(crate) fn key_file() -> &'static str {
    static FILE: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let (_, path) = FILE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("envelope-key");
        std::fs::write(&path, "0123456789abcdef".repeat(4)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    });
    path
}

async fn start(queues: &Queues, worker: &Worker, hold: &str) -> Running {
    let flags = ["--hold", hold, "--envelope-key-file", key_file()];
    serve(queues, worker, &[&LINEAR[..], &flags].concat()).await
}

async fn emptied(queues: &Queues) {
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
}

#[tokio::test]
async fn three_processes_killed_in_turn_lose_nothing() {
    let queues = queues(&[]).await;
    let worker = failing(3).await;
    let bodies: Vec<_> = (0..60).map(|number| number.to_string()).collect();
    queues.send(bodies.clone()).await;
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(start(&queues, &worker, "resend").await);
    }
    for _ in 0..3 {
        let attempts = worker.attempts().len() + 30;
        eventually("thirty more attempts are made", || async {
            worker.attempts().len() >= attempts
        })
        .await;
        running.remove(0).kill().await;
        running.push(start(&queues, &worker, "resend").await);
    }
    emptied(&queues).await;
    for running in running {
        assert_eq!(running.stop().await.0, 0);
    }
    let mut by_body: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for attempt in worker.attempts() {
        let id = attempt.headers["x-aws-sqsd-msgid"].clone();
        let made = by_body.entry(attempt.body).or_default();
        made.push((id, attempt.receive_count));
    }
    assert_eq!(by_body.len(), bodies.len());
    for (body, attempts) in by_body {
        let ids: BTreeSet<_> = attempts.iter().map(|(id, _)| id).collect();
        let counts: Vec<_> = attempts.iter().map(|(_, count)| *count).collect();
        let distinct: BTreeSet<_> = counts.iter().collect();
        assert_eq!(ids.len(), 1, "{body}: {counts:?}");
        assert!(counts.iter().any(|count| *count > 3), "{body}: {counts:?}");
        // A host killed between send and delete leaves a copy, which goes its own way. All others come in order.
        if distinct.len() == counts.len() {
            assert!(counts.is_sorted(), "{body}: {counts:?}");
        }
    }
    assert_eq!(queues.dead().await, 0);
}

#[tokio::test]
async fn a_queue_over_its_limit_in_flight_is_consumed_again_and_its_failures_are_sent_again() {
    let queues = queues(&[]).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let proxy = Proxy::start(&queues.endpoint, move |operation, _| match operation {
        "ReceiveMessage" if over.load(Ordering::Relaxed) => Fault::OverLimit,
        _ => Fault::None,
    })
    .await;
    let through = queues.behind(&proxy.endpoint);
    let worker = failing(1).await;
    let running = start(&through, &worker, "auto").await;
    is_over.store(true, Ordering::Relaxed);
    queues.send(["a".to_owned()]).await;
    eventually("the limit is logged", || async {
        running.log().contains("OverLimit")
    })
    .await;
    queues.send(["b".to_owned(), "c".to_owned()]).await;
    is_over.store(false, Ordering::Relaxed);
    emptied(&queues).await;
    let log = running.log();
    let (code, counts) = running.stop().await;
    assert_eq!(
        (code, &counts[0]["succeeded"]),
        (0, &Value::from(3)),
        "{log}"
    );
    // From then on failures don't add to what is in flight.
    assert!(counts[0]["sent-again"].as_u64().unwrap() >= 2, "{log}");
}

async fn send_with_ten_attributes(queues: &Queues, body: &str) {
    let value = MessageAttributeValue::builder().data_type("String");
    let value = value.string_value("x").build().unwrap();
    let mut send = queues.client.send_message().queue_url(&queues.url);
    for number in 0..10 {
        send = send.message_attributes(format!("a{number}"), value.clone());
    }
    send.message_body(body).send().await.unwrap();
}

#[tokio::test]
async fn the_log_says_once_that_a_delay_is_shortened_for_want_of_room() {
    let queues = queues(&[]).await;
    let worker = failing(9).await;
    for body in ["1", "2"] {
        send_with_ten_attributes(&queues, body).await;
    }
    let policy = ["--policy", "linear", "--set", "base=1d", "--set", "cap=1d"];
    let running = serve(&queues, &worker, &policy).await;
    eventually("both failures are decided", || async {
        running.log().matches("hold=\"visibility\"").count() == 2
    })
    .await;
    let log = running.log();
    assert_eq!(
        log.matches("has no room for the attribute").count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn ten_attributes_and_a_body_at_the_limit_are_held_by_visibility() {
    let queues = queues(&[]).await;
    send_with_ten_attributes(&queues, "many").await;
    let large = "x".repeat(1 << 20);
    let send = queues.client.send_message().queue_url(&queues.url);
    send.message_body(&large).send().await.unwrap();
    let worker = failing(1).await;
    let running = start(&queues, &worker, "resend").await;
    emptied(&queues).await;
    running.logged("has no room for the attribute").await;
    let log = running.log();
    let (_, counts) = running.stop().await;
    assert_eq!(counts[0]["succeeded"], 2, "{log}");
    assert_eq!(counts[0]["sent-again"], 0, "{log}");
    assert_eq!(
        log.matches("has no room for the attribute").count(),
        1,
        "{log}"
    );
    for body in ["many", &large] {
        assert_eq!(worker.attempts_of(body), 2);
    }
    let last = worker.attempts().into_iter().filter(|it| it.body == "many");
    let headers = last.last().unwrap().headers;
    assert!((0..10).all(|number| headers.contains_key(format!("x-aws-sqsd-attr-a{number}"))));
}

#[tokio::test]
async fn the_envelope_goes_over_the_wire_and_the_queue_delays_the_message() {
    // The queue's own delay is not that of a message that is sent again.
    let queues = queues(&[(Q::DelaySeconds, "600")]).await;
    let sent = queues
        .client
        .send_message()
        .queue_url(&queues.url)
        .delay_seconds(0)
        .message_body("1")
        .message_attributes(
            "tenant",
            MessageAttributeValue::builder()
                .data_type("Binary.png")
                .binary_value(aws_sdk_sqs::primitives::Blob::new([0, 255]))
                .build()
                .unwrap(),
        )
        .send()
        .await
        .unwrap();
    let id = sent.message_id().unwrap();
    let worker = failing(2).await;
    let running = serve(
        &queues,
        &worker,
        &[
            "--policy",
            "linear",
            "--set",
            "base=5s",
            "--hold",
            "resend",
            "--envelope-key-file",
            key_file(),
        ],
    )
    .await;
    eventually("the message is attempted", || async {
        worker.attempts().len() == 1
    })
    .await;
    eventually("the old copy is deleted", || async {
        queues.held().await == 1
    })
    .await;
    running.stop().await;
    let receive = queues.client.receive_message().queue_url(&queues.url);
    let received = receive
        .wait_time_seconds(10)
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .visibility_timeout(1)
        .send()
        .await
        .unwrap();
    let waited = worker.attempts()[0].at.elapsed().as_secs_f64();
    assert!((4.0..8.0).contains(&waited), "{waited}");
    let copy = &received.messages()[0];
    assert_ne!(copy.message_id(), Some(id));
    let envelope: Value = serde_json::from_str(text(copy, "BackstopEnvelope").unwrap()).unwrap();
    assert_eq!(envelope["id"], id);
    assert_eq!(
        (&envelope["attempts"], &envelope["delay"]),
        (&Value::from(1), &Value::from(5_000))
    );
    assert_eq!(envelope["hops"], 0);
    let millis = |name: &str| envelope[name].as_u64().unwrap();
    assert!((5_000..7_000).contains(&(millis("due") - millis("first-received"))));
    let tenant = &copy.message_attributes().unwrap()["tenant"];
    assert_eq!(tenant.data_type(), "Binary.png");
    assert_eq!(tenant.binary_value().unwrap().as_ref(), [0, 255]);
    // Another process goes on, and its handler sees the message as it was.
    let running = start(&queues, &worker, "resend").await;
    emptied(&queues).await;
    running.stop().await;
    let attempts = worker.attempts();
    for attempt in &attempts {
        assert_eq!(attempt.headers["x-aws-sqsd-msgid"], id);
        assert!(
            !attempt
                .headers
                .contains_key("x-aws-sqsd-attr-backstopenvelope")
        );
    }
    let counts: Vec<_> = attempts.iter().map(|it| it.receive_count).collect();
    // The test has received it once too.
    assert_eq!(counts, [1, 3]);
}

#[tokio::test]
async fn a_send_that_is_not_allowed_leaves_the_message_in_its_queue() {
    let queues = queues(&[]).await;
    let proxy = Proxy::start(&queues.endpoint, |operation, _| match operation {
        "SendMessageBatch" => Fault::Denied,
        _ => Fault::None,
    })
    .await;
    let through = queues.behind(&proxy.endpoint);
    let worker = failing(2).await;
    queues.send(["1".to_owned()]).await;
    let running = start(&through, &worker, "resend").await;
    emptied(&queues).await;
    running.logged("it is held by visibility").await;
    let (_, counts) = running.stop().await;
    assert_eq!(counts[0]["sent-again"], 0);
    let made: Vec<_> = worker
        .attempts()
        .iter()
        .map(|it| it.receive_count)
        .collect();
    assert_eq!(made, [1, 2, 3]);
}

#[tokio::test]
async fn a_retry_without_delay_does_not_take_the_delay_of_its_queue() {
    let queues = queues(&[(Q::DelaySeconds, "600")]).await;
    let send = queues.client.send_message().queue_url(&queues.url);
    send.delay_seconds(0)
        .message_body("1")
        .send()
        .await
        .unwrap();
    let worker = failing(3).await;
    let policy = [
        "--policy", "linear", "--set", "base=1ms", "--hold", "resend",
    ];
    let running = serve(&queues, &worker, &policy).await;
    emptied(&queues).await;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (&counts[0]["succeeded"], &counts[0]["sent-again"]),
        (&Value::from(1), &Value::from(3))
    );
}
