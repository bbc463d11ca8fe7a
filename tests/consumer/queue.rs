//! The semantics of SQS that the consumer relies on, as laws that are tested on the local queue and, through the real SDK, on two emulators.
//!
//! If an emulator is known to differ from AWS, the law skips it and says how it differs.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use backstop_queue::{
    Attribute, BATCH_BYTES, LocalQueue, LocalSettings, Message, Outgoing, Queue, ReceiptHandle,
    Sqs, VisibilityTimeout,
};
use backstop_tests::aws::{self, Queues};
use backstop_tests::emulator;
use tokio::net::TcpListener;
use tokio::sync::MutexGuard;

static CHUNK: Bytes = Bytes::from_static(&[b' '; 64 << 10]);

/// An implementation that laws are tested on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Implementation {
    Local,
    Ministack,
    Moto,
}

/// A queue for one test, with its dead-letter queue.
struct Tried {
    queue: Arc<dyn Queue>,
    dead_letters: Arc<dyn Queue>,
    /// moto serves one client at a time.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Tried {
    async fn new(on: Implementation, fifo: bool, max_receive_count: Option<u32>) -> Self {
        let endpoint = match on {
            Implementation::Local => return Self::local(fifo, max_receive_count),
            Implementation::Ministack => &emulator::ministack().endpoint,
            Implementation::Moto => &emulator::moto().endpoint,
        };
        let alone = if on == Implementation::Moto {
            Some(emulator::MOTO.lock().await)
        } else {
            None
        };
        let attributes = [(Q::MessageRetentionPeriod, "3600")];
        let queues = if fifo {
            Queues::fifo(endpoint, &attributes).await
        } else {
            Queues::standard(endpoint, &attributes).await
        };
        if let Some(most) = max_receive_count {
            queues.redrive_after(most).await;
        }
        let sqs = Sqs::new(&aws::config(endpoint).await);
        Self {
            queue: Arc::new(sqs.queue(&queues.url)),
            dead_letters: Arc::new(sqs.queue(&queues.dead_letters)),
            _alone: alone,
        }
    }

    fn local(fifo: bool, max_receive_count: Option<u32>) -> Self {
        let suffix = if fifo { ".fifo" } else { "" };
        let dead_letters = LocalQueue::new(&format!("dead{suffix}"), LocalSettings::default());
        let redrive = max_receive_count
            .and_then(NonZeroU32::new)
            .map(|most| (Arc::clone(&dead_letters), most));
        let settings = LocalSettings {
            retention: Duration::from_secs(3_600),
            redrive,
            ..LocalSettings::default()
        };
        Self {
            queue: LocalQueue::new(&format!("orders{suffix}"), settings),
            dead_letters,
            _alone: None,
        }
    }

    async fn send(&self, bodies: &[&str]) {
        let messages: Vec<_> = bodies.iter().map(|body| Outgoing::new(*body)).collect();
        self.send_all(&messages).await;
    }

    /// Sends to a group; the body is the deduplication id.
    async fn send_to(&self, group: &str, bodies: &[&str]) {
        let messages: Vec<_> = bodies
            .iter()
            .map(|body| Outgoing {
                group: Some(group.to_owned()),
                deduplication_id: Some((*body).to_owned()),
                ..Outgoing::new(*body)
            })
            .collect();
        self.send_all(&messages).await;
    }

    async fn send_all(&self, messages: &[Outgoing]) {
        for sent in self.queue.send(messages).await.unwrap() {
            sent.unwrap();
        }
    }

    /// Receives without waiting. The messages stay invisible for a minute.
    async fn receive(&self, max: usize) -> Vec<Message> {
        self.queue
            .receive(max, Duration::ZERO, seconds(60))
            .await
            .unwrap()
    }

    async fn one(&self) -> Message {
        let mut messages = self.receive(1).await;
        assert_eq!(messages.len(), 1);
        messages.remove(0)
    }

    async fn change_visibility(&self, message: &Message, timeout: VisibilityTimeout) {
        let changed = self
            .queue
            .change_visibility(&[(message.receipt_handle.clone(), timeout)])
            .await
            .unwrap();
        assert_eq!(changed, [Ok(())]);
    }
}

fn seconds(seconds: u64) -> VisibilityTimeout {
    VisibilityTimeout::rounded_up(Duration::from_secs(seconds))
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message.body.as_ref())
        .collect()
}

/// Tests each law on each implementation.
macro_rules! laws {
    ($($law:ident),* $(,)?) => {
        mod on_the_local_queue {
            $(#[tokio::test] async fn $law() { super::$law(super::Implementation::Local).await; })*
        }
        mod on_ministack {
            $(#[tokio::test] async fn $law() { super::$law(super::Implementation::Ministack).await; })*
        }
        mod on_moto {
            $(#[tokio::test] async fn $law() { super::$law(super::Implementation::Moto).await; })*
        }
    };
}

laws! {
    a_message_is_received_as_it_was_sent,
    a_received_message_is_invisible_until_its_time_is_over,
    a_message_made_visible_is_received_again_with_a_new_handle,
    a_deleted_message_is_gone,
    an_invalid_handle_fails_its_entry_and_no_other,
    a_batch_has_at_most_ten_entries,
    a_batch_has_at_most_a_mebibyte,
    a_message_received_too_often_is_moved,
    a_group_is_received_in_order_and_blocked_by_its_first_message,
    a_long_poll_ends_when_a_message_arrives,
    a_queue_describes_itself,
}

async fn a_message_is_received_as_it_was_sent(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    let attributes = [
        ("text".to_owned(), Attribute::string("é ✓")),
        ("number".to_owned(), Attribute::number(42)),
        (
            "bytes".to_owned(),
            Attribute::Binary {
                data_type: "Binary".to_owned(),
                value: vec![0, 255],
            },
        ),
    ];
    let sent = Outgoing {
        attributes: attributes.into(),
        ..Outgoing::new("body ✓")
    };
    tried.send_all(std::slice::from_ref(&sent)).await;
    let message = tried.one().await;
    assert_eq!(
        (message.body.as_ref(), &message.attributes),
        ("body ✓", &sent.attributes)
    );
    assert_eq!(message.receive_count.get(), 1);
    assert!(message.sent.0 > 1_700_000_000_000 && message.first_received >= message.sent);
}

async fn a_received_message_is_invisible_until_its_time_is_over(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    tried.send(&["a"]).await;
    let first = tried
        .queue
        .receive(10, Duration::ZERO, seconds(1))
        .await
        .unwrap();
    assert_eq!(bodies(&first), ["a"]);
    assert!(tried.receive(10).await.is_empty());
    let again = tried
        .queue
        .receive(10, Duration::from_secs(5), seconds(60))
        .await
        .unwrap();
    assert_eq!(
        (bodies(&again), again[0].receive_count.get()),
        (vec!["a"], 2)
    );
    assert_eq!(again[0].id, first[0].id);
}

async fn a_message_made_visible_is_received_again_with_a_new_handle(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    tried.send(&["a"]).await;
    let first = tried.one().await;
    tried
        .change_visibility(&first, VisibilityTimeout::ZERO)
        .await;
    let second = tried.one().await;
    assert_eq!(
        (second.id.as_str(), second.receive_count.get()),
        (first.id.as_str(), 2)
    );
    assert_ne!(second.receipt_handle, first.receipt_handle);
    assert_eq!(
        second.first_received.0 / 1_000,
        first.first_received.0 / 1_000
    );
}

async fn a_deleted_message_is_gone(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    tried.send(&["a", "b"]).await;
    let messages = tried.receive(10).await;
    let handles: Vec<_> = messages
        .iter()
        .map(|message| message.receipt_handle.clone())
        .collect();
    assert_eq!(
        tried.queue.delete(&handles).await.unwrap(),
        [Ok(()), Ok(())]
    );
    let again = tried.queue.delete(&handles).await.unwrap();
    // ministack returns ReceiptHandleIsInvalid where AWS succeeds.
    if on != Implementation::Ministack {
        assert_eq!(again, [Ok(()), Ok(())]);
    }
    assert!(tried.receive(10).await.is_empty());
}

async fn an_invalid_handle_fails_its_entry_and_no_other(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    tried.send(&["a"]).await;
    let good = tried.one().await.receipt_handle;
    let garbage = ReceiptHandle("garbage".into());
    let results = tried.queue.delete(&[garbage, good]).await.unwrap();
    let error = results[0].as_ref().unwrap_err();
    assert!(
        !error.retryable && error.code.contains("ReceiptHandleIsInvalid"),
        "{error}"
    );
    assert_eq!(results[1], Ok(()));
}

async fn a_batch_has_at_most_ten_entries(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    let messages = vec![Outgoing::new("a"); 11];
    let error = tried.queue.send(&messages).await.unwrap_err();
    assert!(
        error.code.contains("TooManyEntriesInBatchRequest"),
        "{error}"
    );
}

async fn a_batch_has_at_most_a_mebibyte(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    tried
        .send_all(&[Outgoing::new("x".repeat(BATCH_BYTES))])
        .await;
    let half = Outgoing::new("x".repeat(BATCH_BYTES / 2 + 1));
    let error = tried.queue.send(&[half.clone(), half]).await.unwrap_err();
    assert!(error.code.contains("BatchRequestTooLong"), "{error}");
}

/// Not on the emulators: ministack allows more than 12 hours from the receive, moto fails the whole batch.
#[tokio::test]
async fn a_change_above_the_visibility_limit_fails_its_entry_and_no_other() {
    let tried = Tried::local(false, None);
    tried.send(&["a", "b"]).await;
    let messages = tried.receive(2).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(30)).await;
    let changes = [
        (messages[0].receipt_handle.clone(), VisibilityTimeout::MAX),
        (messages[1].receipt_handle.clone(), seconds(43_200 - 31)),
    ];
    let results = tried.queue.change_visibility(&changes).await.unwrap();
    assert!(
        results[0]
            .as_ref()
            .is_err_and(|error| error.message.contains("beyond the limit [43200 seconds]"))
    );
    assert_eq!(results[1], Ok(()));
}

async fn a_message_received_too_often_is_moved(on: Implementation) {
    let tried = Tried::new(on, false, Some(2)).await;
    tried.send(&["a"]).await;
    for _ in 0..2 {
        let message = tried.one().await;
        tried
            .change_visibility(&message, VisibilityTimeout::ZERO)
            .await;
    }
    assert!(tried.receive(10).await.is_empty());
    let dead = tried
        .dead_letters
        .receive(10, Duration::from_secs(2), seconds(60))
        .await
        .unwrap();
    assert_eq!(bodies(&dead), ["a"]);
}

async fn a_group_is_received_in_order_and_blocked_by_its_first_message(on: Implementation) {
    let tried = Tried::new(on, true, None).await;
    tried.send_to("g", &["g1", "g2", "g3"]).await;
    tried.send_to("h", &["h1"]).await;
    // A duplicate within five minutes is dropped.
    tried.send_to("g", &["g1"]).await;
    let first = tried.one().await;
    assert_eq!(
        (first.body.as_ref(), first.group.as_deref()),
        ("g1", Some("g"))
    );
    // The group waits for its first message; the other group does not.
    assert_eq!(bodies(&tried.receive(10).await), ["h1"]);
    tried.queue.delete(&[first.receipt_handle]).await.unwrap()[0]
        .as_ref()
        .unwrap();
    assert_eq!(bodies(&tried.receive(10).await), ["g2", "g3"]);
}

async fn a_long_poll_ends_when_a_message_arrives(on: Implementation) {
    let tried = Tried::new(on, false, None).await;
    let poll = tried
        .queue
        .receive(10, Duration::from_secs(20), seconds(60));
    let send = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        tried.send(&["late"]).await;
    };
    let (received, ()) = tokio::join!(poll, send);
    assert_eq!(bodies(&received.unwrap()), ["late"]);
}

async fn a_queue_describes_itself(on: Implementation) {
    for fifo in [false, true] {
        let tried = Tried::new(on, fifo, Some(7)).await;
        let description = tried.queue.describe().await.unwrap();
        assert_eq!(
            (description.fifo, description.retention.0),
            (fifo, 3_600_000)
        );
        assert_eq!(
            (
                description.visibility_timeout.seconds(),
                description.max_message_bytes
            ),
            (30, BATCH_BYTES)
        );
        let redrive = description.redrive.unwrap();
        assert_eq!(redrive.max_receive_count.get(), 7);
        assert_eq!(
            redrive.dead_letter_arn,
            tried.dead_letters.describe().await.unwrap().arn
        );
    }
}

#[tokio::test]
async fn a_missing_queue_is_a_permanent_error() {
    let endpoint = &emulator::ministack().endpoint;
    let queue =
        Sqs::new(&aws::config(endpoint).await).queue(&format!("{endpoint}/000000000000/nowhere"));
    let missing = queue.describe().await.unwrap_err();
    assert!(
        missing.is_missing_queue() && !missing.is_retryable(),
        "{missing:?}"
    );
}

#[tokio::test]
async fn an_unreachable_endpoint_is_a_retryable_error() {
    let endpoint = format!("http://127.0.0.1:{}", emulator::free_port());
    let queue =
        Sqs::new(&aws::config(&endpoint).await).queue(&format!("{endpoint}/000000000000/orders"));
    let unreachable = queue.describe().await.unwrap_err();
    assert!(unreachable.is_retryable(), "{unreachable:?}");
}

/// The endpoint sends endless responses.
#[tokio::test]
async fn a_response_of_sqs_is_read_up_to_a_limit() {
    let sent = Arc::new(AtomicUsize::new(0));
    for status in [StatusCode::OK, StatusCode::BAD_REQUEST] {
        let counted = Arc::clone(&sent);
        let endless = move || {
            let chunks = futures_util::stream::repeat_with(move || {
                counted.fetch_add(CHUNK.len(), Ordering::Relaxed);
                Ok::<_, std::convert::Infallible>(CHUNK.clone())
            });
            (status, Body::from_stream(chunks))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(async move || endless());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let queue = Sqs::new(&aws::config(&endpoint).await).queue(&format!("{endpoint}/1/orders"));
        let received = queue.receive(10, Duration::ZERO, seconds(60)).await;
        let error = received.unwrap_err();
        assert!(error.to_string().contains("limit"), "{error:?}");
    }
    // The sender counts buffered bytes too.
    assert!(sent.load(Ordering::Relaxed) < 96 << 20);
}

#[tokio::test]
async fn a_full_local_queue_rejects_messages() {
    let settings = LocalSettings {
        max_bytes: 3 << 20,
        ..LocalSettings::default()
    };
    let queue = LocalQueue::new("orders", settings);
    let large = Outgoing::new("x".repeat(BATCH_BYTES - 10));
    let send = async || queue.send(std::slice::from_ref(&large)).await.unwrap()[0].clone();
    assert_eq!((send().await, send().await), (Ok(()), Ok(())));
    let full = send().await.unwrap_err();
    assert!(full.retryable && full.code == "OverLimit", "{full:?}");
    let taken = queue.receive(1, Duration::ZERO, seconds(60)).await.unwrap();
    queue
        .delete(&[taken[0].receipt_handle.clone()])
        .await
        .unwrap();
    assert_eq!(send().await, Ok(()));
}
