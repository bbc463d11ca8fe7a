//! Delivery to SQS queues: partial failures, throttles, answers in another order, cut connections, slow answers. No message is lost, and groups stay in order.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName as Q};
use backstop_core::policy::FullJitter;
use backstop_deliver::sqs::{Queue, message};
use backstop_deliver::{Delivery, Report, Undelivered};
use backstop_tests::aws::{Queues, config};
use backstop_tests::emulator::{MOTO, ministack, moto};
use backstop_tests::proxy::{ALL, Fault, Proxy};
use futures_util::stream;

type Entry = aws_sdk_sqs::types::SendMessageBatchRequestEntry;

fn policy() -> FullJitter {
    FullJitter::default()
        .base(Duration::from_millis(5))
        .cap(Duration::from_millis(50))
}

/// Delivers through a proxy with this plan for the sends.
async fn deliver(
    queues: &Queues,
    requests: usize,
    entries: impl IntoIterator<Item = Entry>,
    plan: impl Fn(u64) -> Fault + Send + Sync + 'static,
) -> Report<Entry, backstop_deliver::sqs::Receipt> {
    let sends = std::sync::atomic::AtomicU64::new(0);
    let plan = move |operation: &str, _| match operation {
        "SendMessageBatch" => plan(sends.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
        _ => Fault::None,
    };
    let proxy = Proxy::start(&queues.endpoint, plan).await;
    let url = queues.behind(&proxy.endpoint).url;
    let queue = Queue::open(&config(&proxy.endpoint).await, &url)
        .await
        .unwrap();
    let delivery = Delivery::new(queue).policy(policy()).requests(requests);
    delivery.send(stream::iter(entries)).await.unwrap()
}

fn numbered(count: usize) -> impl Iterator<Item = Entry> {
    (0..count).map(|number| message(number.to_string()).build().unwrap())
}

/// Every third request has a fault, each fault in turn.
fn every_fault(number: u64) -> Fault {
    match (
        number % 3,
        ALL.get(usize::try_from(number / 3).unwrap() % 9),
    ) {
        (0, Some(fault)) => *fault,
        (0, None) => Fault::Reversed,
        _ => Fault::None,
    }
}

async fn bodies(queues: &Queues) -> BTreeSet<usize> {
    let left = queues.take_left().await.into_keys();
    left.map(|body| body.parse().unwrap()).collect()
}

#[tokio::test]
async fn every_message_arrives_through_every_fault() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let report = deliver(&queues, 8, numbered(600), every_fault).await;
    let counts = report.counts;
    assert_eq!((counts.delivered, report.undelivered.len()), (600, 0));
    assert!(counts.retries > 100, "{counts:?}");
    // After a late error, a cut connection or an answer in part, the message is there twice.
    assert!(counts.possibly_twice > 20, "{counts:?}");
    let held = queues.held().await;
    let most = 600 + usize::try_from(counts.retries).unwrap();
    assert!((601..=most).contains(&held), "{held}: {counts:?}");
    assert_eq!(bodies(&queues).await, (0..600).collect());
}

#[tokio::test]
async fn what_is_known_to_have_failed_is_never_delivered_twice() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let known = |number: u64| match number % 5 {
        0 => Fault::Throttled,
        1 => Fault::FailedInPart,
        2 => Fault::ThrottledInPart,
        3 => Fault::Reversed,
        _ => Fault::Slow,
    };
    let report = deliver(&queues, 8, numbered(200), known).await;
    assert_eq!(
        (report.counts.delivered, report.counts.possibly_twice),
        (200, 0)
    );
    assert_eq!(queues.held().await, 200);
    assert_eq!(bodies(&queues).await, (0..200).collect());
}

#[tokio::test]
async fn the_strict_emulator_gets_every_message_too() {
    let _alone = MOTO.lock().await;
    let queues = Queues::standard(&moto().endpoint, &[]).await;
    let report = deliver(&queues, 1, numbered(120), every_fault).await;
    assert_eq!(
        (report.counts.delivered, report.undelivered.len()),
        (120, 0)
    );
    assert_eq!(bodies(&queues).await, (0..120).collect());
}

#[tokio::test]
async fn groups_stay_in_order_through_every_fault_and_repetitions_are_dropped() {
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    let entries = (0..300).map(|number| {
        let group = format!("g{}", number % 12);
        message(number.to_string())
            .message_group_id(group)
            .build()
            .unwrap()
    });
    let report = deliver(&queues, 4, entries, every_fault).await;
    assert_eq!(
        (report.counts.delivered, report.undelivered.len()),
        (300, 0)
    );
    assert!(report.counts.possibly_twice > 5, "{:?}", report.counts);
    assert_eq!(in_order(&queues).await, 300);
}

/// How many messages a FIFO queue has; each group is in its order, without repetitions.
async fn in_order(queues: &Queues) -> usize {
    let mut last = [None; 12];
    let mut count = 0;
    loop {
        let request = queues.client.receive_message().queue_url(&queues.url);
        let request = request.max_number_of_messages(10);
        let received = request.message_system_attribute_names(MessageSystemAttributeName::All);
        let messages = received.send().await.unwrap().messages.unwrap_or_default();
        if messages.is_empty() {
            return count;
        }
        for message in messages {
            let number: usize = message.body().unwrap().parse().unwrap();
            let before = last[number % 12].replace(number);
            assert!(before < Some(number), "{before:?} came before {number}");
            count += 1;
            let delete = queues.client.delete_message().queue_url(&queues.url);
            let delete = delete.receipt_handle(message.receipt_handle().unwrap());
            delete.send().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_message_without_a_deduplication_id_gets_one_that_stays() {
    let attributes = [(Q::ContentBasedDeduplication, "false")];
    let queues = Queues::fifo(&ministack().endpoint, &[]).await;
    let request = queues.client.set_queue_attributes().queue_url(&queues.url);
    let [(name, value)] = attributes;
    request.attributes(name, value).send().await.unwrap();
    // The same body twice: two messages. Each request is carried out, and its first answer is lost.
    let entries = [0, 0].map(|_| message("0").message_group_id("g").build().unwrap());
    let report = deliver(&queues, 1, entries, |number| match number % 2 {
        0 => Fault::Cut,
        _ => Fault::None,
    })
    .await;
    assert_eq!(
        (report.counts.delivered, report.counts.possibly_twice),
        (2, 2)
    );
    assert_eq!(queues.held().await, 2);
}

#[tokio::test]
async fn the_queues_own_limit_is_kept_and_a_larger_message_comes_back() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::MaximumMessageSize, "2048")]).await;
    let entry = |bytes: usize| message("x".repeat(bytes)).build().unwrap();
    let sizes = [2_000, 2_049, 100, 1_948, 1];
    let report = deliver(&queues, 1, sizes.map(entry), |_| Fault::None).await;
    assert_eq!((report.counts.delivered, report.counts.requests), (4, 3));
    let [large] = &report.undelivered[..] else {
        panic!("{report:?}");
    };
    let expected = Undelivered::TooLarge {
        bytes: 2_049,
        most: 2_048,
    };
    assert_eq!((large.index, large.undelivered()), (1, Some(&expected)));
}

#[tokio::test]
async fn a_message_that_sqs_refuses_comes_back_and_the_others_arrive() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let entries = (0..30).map(|number| {
        let body = if number % 7 == 3 {
            "\u{1}".to_owned()
        } else {
            number.to_string()
        };
        message(body).build().unwrap()
    });
    let report = deliver(&queues, 2, entries, |_| Fault::None).await;
    let refused: BTreeSet<_> = report
        .undelivered
        .iter()
        .map(|outcome| outcome.index)
        .collect();
    assert_eq!(refused, [3, 10, 17, 24].into());
    for outcome in &report.undelivered {
        let Some(Undelivered::Rejected(error)) = outcome.undelivered() else {
            panic!("{outcome:?}");
        };
        assert!(error.code.contains("InvalidMessageContents"), "{error}");
    }
    assert_eq!(queues.held().await, 26);
}

#[tokio::test]
async fn a_missing_permission_stops_the_delivery_and_everything_comes_back() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let report = deliver(&queues, 4, numbered(100_000), |_| Fault::Denied).await;
    let error = report.stopped_by.unwrap();
    assert!(error.code.contains("AccessDenied"), "{error}");
    assert!(report.counts.requests <= 4 && report.counts.entries < 200);
    assert_eq!(report.counts.undelivered, report.counts.entries);
}

#[tokio::test]
async fn a_queue_that_does_not_exist_or_respond_is_an_error_at_once() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let sdk = config(&queues.endpoint).await;
    let refused = Queue::open(&sdk, &format!("{}-missing", queues.url)).await;
    let refused = refused.unwrap_err();
    assert!(refused.error.code.contains("NonExistentQueue"), "{refused}");
    assert!(!refused.retryable);
    let nobody = config("http://127.0.0.1:9").await;
    let refused = Queue::open(&nobody, "http://127.0.0.1:9/1/orders")
        .await
        .unwrap_err();
    assert_eq!(refused.error.code, "ECONNREFUSED");
    assert!(refused.retryable, "{refused}");
}
