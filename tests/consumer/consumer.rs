//! The consumer as users run it: `backstop run` as a child process against emulators of SQS. Every message is accounted for: handled, dead-lettered or still in its queue.

use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName as Q};
use backstop_tests::aws::{Queues, text};
use backstop_tests::backstop::{Running, serve};
use backstop_tests::emulator::{MOTO, ministack, moto};
use backstop_tests::eventually;
use backstop_tests::worker::{Worker, numbered};

/// Handles messages of every kind and checks all counts.
async fn every_message_is_accounted_for(queues: Queues, scale: usize) {
    let worker = Worker::by_name().await;
    let kinds = [
        ("fine", 10 * scale),
        ("flaky", 5 * scale),
        ("wrong", 3 * scale),
        ("broken", 2 * scale),
    ];
    for (kind, count) in kinds {
        queues.send(numbered(kind, count)).await;
    }
    let policy = [
        "--policy",
        "linear",
        "--set",
        "base=1ms",
        "--set",
        "max-attempts=4",
    ];
    let running = serve(&queues, &worker, &policy).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (code, counts) = running.stop().await;
    assert_eq!(code, 0);

    let (done, dead) = (15 * scale, 5 * scale);
    let counts = &counts[0];
    assert_eq!(
        (
            counts["succeeded"].as_u64(),
            counts["dead-lettered"].as_u64()
        ),
        (Some(done as u64), Some(dead as u64))
    );
    assert_eq!(
        (counts["unsettled"].as_u64(), counts["fallbacks"].as_u64()),
        (Some(0), Some(0))
    );
    let (letters, arn) = (queues.take_dead().await, queues.arn().await);
    assert_eq!(letters.len(), dead);
    for (body, letter) in &letters {
        let expected = match body.split('-').next().unwrap() {
            "wrong" => ("1", "permanent", "permanent: HTTP 400"),
            "broken" => ("4", "transient", "max-attempts of 4 reached: HTTP 503"),
            other => panic!("{other} was dead-lettered"),
        };
        let of = |name: &str| text(letter, name).unwrap_or_default();
        assert_eq!(
            (
                of("BackstopAttempt"),
                of("BackstopClass"),
                of("BackstopReason")
            ),
            expected
        );
        assert!(of("BackstopPolicy").starts_with("sha256:") && of("BackstopMessageId").len() > 8);
        assert_eq!(of("BackstopSource"), arn);
    }
    for (body, attempts) in [
        ("fine-0", 1),
        ("flaky-0", 3),
        ("wrong-0", 1),
        ("broken-0", 4),
    ] {
        assert_eq!(worker.attempts_of(body), attempts, "{body}");
    }
}

#[tokio::test]
async fn every_message_is_accounted_for_on_ministack() {
    every_message_is_accounted_for(Queues::standard(&ministack().endpoint, &[]).await, 10).await;
}

#[tokio::test]
async fn every_message_is_accounted_for_on_moto() {
    let _alone = MOTO.lock().await;
    every_message_is_accounted_for(Queues::standard(&moto().endpoint, &[]).await, 1).await;
}

#[tokio::test]
async fn a_fifo_group_stays_in_order_through_failures() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    let worker = Worker::answering(|attempt| {
        if attempt.body.ends_with('2') && attempt.receive_count == 1 {
            503
        } else {
            200
        }
    })
    .await;
    for group in ["a", "b", "c"] {
        queues
            .send_grouped((0..6).map(|number| (Some(group.to_owned()), format!("{group}{number}"))))
            .await;
    }
    let policy = ["--policy", "linear", "--set", "base=1ms"];
    let running = serve(&queues, &worker, &policy).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    for group in ["a", "b", "c"] {
        let order: Vec<_> = worker
            .attempts()
            .into_iter()
            .map(|attempt| attempt.body)
            .filter(|body| body.starts_with(group))
            .collect();
        let expected = ["0", "1", "2", "2", "3", "4", "5"].map(|number| format!("{group}{number}"));
        assert_eq!(order, expected);
    }
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(18), 0)
    );
}

#[tokio::test]
async fn a_heartbeat_keeps_a_long_attempt_from_being_delivered_again() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "2")]).await;
    queues.send(["long".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "sh -c 'echo begun >> {log}; sleep 5; echo ended >> {log}'",
        log = log.display()
    );
    let more = ["--exec", &script];
    let running = Running::start(&[&queues.arguments()[..], &more].concat()).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "begun\nended\n");
    assert_eq!(
        (
            counts[0]["received"].as_u64(),
            counts[0]["succeeded"].as_u64()
        ),
        (Some(1), Some(1))
    );
    assert!(
        counts[0]["visibility-requests"].as_u64() >= Some(3),
        "{}",
        counts[0]
    );
}

#[tokio::test]
async fn a_dead_letter_of_a_fair_queue_keeps_its_message_group() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    let group = "tenant-7".to_owned();
    queues
        .send_grouped([(Some(group), "wrong".to_owned())])
        .await;
    let running = serve(&queues, &worker, &[]).await;
    eventually("it is dead-lettered", || async { queues.dead().await == 1 }).await;
    running.stop().await;
    let letters = queues.take_dead().await;
    let system = letters["wrong"].attributes().unwrap();
    let group = system.get(&MessageSystemAttributeName::MessageGroupId);
    assert_eq!(group.map(String::as_str), Some("tenant-7"));
}
