//! A proxy in front of an emulator throttles, fails, fails in part, cuts connections and responds slowly. No message is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::Running;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::proxy::{ALL, Fault, Proxy};
use backstop_tests::worker::Worker;

/// Every third message needs three attempts, every fifth fails permanently.
async fn worker() -> Worker {
    Worker::answering(|attempt| match attempt.body.parse::<u32>().unwrap() {
        number if number % 5 == 0 => 400,
        number if number % 3 == 0 && attempt.receive_count <= 2 => 503,
        _ => 200,
    })
    .await
}

async fn start(queues: &Queues, endpoint: &str, worker: &Worker) -> Running {
    let behind = queues.behind(endpoint);
    let arguments = [
        "--queue-url",
        &behind.url,
        "--endpoint-url",
        endpoint,
        "--dead-letter-queue",
        &behind.dead_letters,
        "--http",
        &worker.url,
        "--policy",
        "linear",
        "--set",
        "base=1ms",
    ];
    Running::start(&arguments).await
}

/// Sends `count` messages through a proxy with this plan and accounts for each of them.
async fn nothing_is_lost(count: u32, plan: impl Fn(&str, u64) -> Fault + Send + Sync + 'static) {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "3")]).await;
    queues
        .send((0..count).map(|number| number.to_string()))
        .await;
    let proxy = Proxy::start(&queues.endpoint, plan).await;
    let worker = worker().await;
    let running = start(&queues, &proxy.endpoint, &worker).await;
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let log = running.log();
    let (code, counts) = running.stop().await;
    assert_eq!(code, 0, "{log}");
    let dead: BTreeSet<u32> = queues
        .take_dead()
        .await
        .into_keys()
        .map(|body| body.parse().unwrap())
        .collect();
    assert_eq!(
        dead,
        (0..count).filter(|number| number % 5 == 0).collect(),
        "{log}"
    );
    let attempted: BTreeSet<u32> = worker
        .attempts()
        .iter()
        .map(|attempt| attempt.body.parse().unwrap())
        .collect();
    assert_eq!(attempted.len(), usize::try_from(count).unwrap(), "{log}");
    assert!(
        counts[0]["succeeded"].as_u64().unwrap() + counts[0]["dead-lettered"].as_u64().unwrap()
            >= u64::from(count) / 2,
        "{}",
        counts[0]
    );
    assert!(proxy.requests() > 0);
}

/// The first requests check the queues. They must succeed, or the start fails.
const CHECKS: u64 = 4;

#[tokio::test]
async fn nothing_is_lost_when_a_third_of_all_requests_fail_in_every_way() {
    nothing_is_lost(300, |operation, number| {
        let draw = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        if operation == "GetQueueAttributes" || number < CHECKS || draw % 3 != 0 {
            return Fault::None;
        }
        ALL[usize::try_from(draw / 3).unwrap() % ALL.len()]
    })
    .await;
}

#[tokio::test]
async fn nothing_is_lost_when_every_batch_fails_in_part_at_first() {
    nothing_is_lost(60, |operation, number| match operation {
        "DeleteMessageBatch" if number % 2 == 0 => Fault::FailedInPart,
        "ChangeMessageVisibilityBatch" if number % 2 == 0 => Fault::ThrottledInPart,
        "SendMessageBatch" if number % 2 == 0 => Fault::Unanswered,
        _ => Fault::None,
    })
    .await;
}

#[tokio::test]
async fn an_outage_of_sqs_is_logged_once_and_survived() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "3")]).await;
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let proxy = Proxy::start(&queues.endpoint, move |_, _| {
        if is_down.load(Ordering::Relaxed) {
            Fault::ServerError
        } else {
            Fault::None
        }
    })
    .await;
    let worker = worker().await;
    let running = start(&queues, &proxy.endpoint, &worker).await;
    down.store(true, Ordering::Relaxed);
    queues.send(["1".to_owned()]).await;
    // The current poll may still receive the first message; every later request fails.
    eventually("the outage is logged", || async {
        running.log().contains("can't receive")
    })
    .await;
    queues.send(["2".to_owned()]).await;
    let before = proxy.requests();
    eventually("receiving is retried", || async {
        proxy.requests() >= before + 4
    })
    .await;
    down.store(false, Ordering::Relaxed);
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    running.logged("receiving again").await;
    let log = running.log();
    running.stop().await;
    assert_eq!(
        (
            log.matches("can't receive").count(),
            log.matches("receiving again").count()
        ),
        (1, 1),
        "{log}"
    );
}
