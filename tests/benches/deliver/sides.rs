//! The sides: bare loops of full batches, the recursion that waits for each batch, and Backstop's delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, WriteRequest};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry as Entry;
use backstop_core::clock;
use backstop_deliver::{Delivery, Target, dynamodb, sqs};
use backstop_tests::aws::config;
use futures_util::{Stream, stream};

use crate::REQUESTS;

/// What a side does, as its process receives it.
pub(crate) struct Work {
    pub(crate) endpoint: String,
    pub(crate) entries: usize,
    /// Loops at the same time, for the recursion.
    pub(crate) loops: usize,
}

impl Work {
    pub(crate) fn from_arguments(arguments: &[String]) -> Self {
        Self {
            endpoint: arguments[0].clone(),
            entries: arguments[1].parse().unwrap(),
            loops: arguments[2].parse().unwrap(),
        }
    }

    fn url(&self) -> String {
        format!("{}/1/orders", self.endpoint)
    }
}

/// A message of about 200 bytes.
fn entry(number: usize) -> Entry {
    let body = format!("{number} {:0200}", number);
    sqs::message(body)
        .id((number % 10).to_string())
        .build()
        .unwrap()
}

fn item(number: usize) -> WriteRequest {
    let text = |text: String| AttributeValue::S(text);
    dynamodb::put([
        ("id".to_owned(), text(number.to_string())),
        ("value".to_owned(), text(format!("{number:0200}"))),
    ])
}

/// Prints how long it took, and waits until the parent has measured the process.
fn end(started: std::time::Instant) {
    println!("end {}", started.elapsed().as_secs_f64());
    let _ = std::io::stdin().read_line(&mut String::new());
    std::process::exit(0);
}

/// As many loops of full batches as there are requests in flight.
pub(crate) async fn bare(work: Work) {
    let client = Client::new(&config(&work.endpoint).await);
    let (next, work) = (Arc::new(AtomicUsize::new(0)), Arc::new(work));
    let started = clock::instant();
    let loops = (0..REQUESTS).map(|_| {
        let (client, next, work) = (client.clone(), Arc::clone(&next), Arc::clone(&work));
        tokio::spawn(async move {
            loop {
                let first = next.fetch_add(10, Ordering::Relaxed);
                if first >= work.entries {
                    return;
                }
                let entries = (first..first + 10).map(entry).collect();
                let request = client.send_message_batch().queue_url(work.url());
                let answer = request.set_entries(Some(entries)).send().await.unwrap();
                assert!(answer.failed.is_empty());
            }
        })
    });
    for running in loops.collect::<Vec<_>>() {
        running.await.unwrap();
    }
    end(started);
}

pub(crate) async fn bare_dynamodb(work: Work) {
    let client = aws_sdk_dynamodb::Client::new(&config(&work.endpoint).await);
    let (next, work) = (Arc::new(AtomicUsize::new(0)), Arc::new(work));
    let started = clock::instant();
    let loops = (0..REQUESTS).map(|_| {
        let (client, next, work) = (client.clone(), Arc::clone(&next), Arc::clone(&work));
        tokio::spawn(async move {
            loop {
                let first = next.fetch_add(25, Ordering::Relaxed);
                if first >= work.entries {
                    return;
                }
                let writes = (first..first + 25).map(item).collect();
                let request = client.batch_write_item().request_items("orders", writes);
                let answer = request.send().await.unwrap();
                assert!(answer.unprocessed_items.unwrap_or_default().is_empty());
            }
        })
    });
    for running in loops.collect::<Vec<_>>() {
        running.await.unwrap();
    }
    end(started);
}

/// The pattern of many programs: a batch is sent, what failed is sent again after a backoff, until nothing is left, and then comes the next batch.
pub(crate) async fn recursive(work: Work) {
    let client = Client::new(&config(&work.endpoint).await);
    let (next, work) = (Arc::new(AtomicUsize::new(0)), Arc::new(work));
    let started = clock::instant();
    let loops = (0..work.loops).map(|_| {
        let (client, next, work) = (client.clone(), Arc::clone(&next), Arc::clone(&work));
        tokio::spawn(async move {
            loop {
                let first = next.fetch_add(10, Ordering::Relaxed);
                if first >= work.entries {
                    return;
                }
                send(
                    &client,
                    &work.url(),
                    (first..first + 10).map(entry).collect(),
                    1,
                )
                .await;
            }
        })
    });
    for running in loops.collect::<Vec<_>>() {
        running.await.unwrap();
    }
    end(started);
}

async fn send(client: &Client, url: &str, entries: Vec<Entry>, attempt: u32) {
    let request = client.send_message_batch().queue_url(url);
    let request = request.set_entries(Some(entries.clone()));
    let failed = request.send().await.unwrap().failed;
    if failed.is_empty() {
        return;
    }
    // Full jitter from 100 ms, as the default policy of a delivery.
    let ceiling = 100.0 * f64::from(2_u32.pow(attempt - 1));
    let random =
        backstop_core::failure::random(&entries[0].message_body, attempt.try_into().unwrap());
    tokio::time::sleep(Duration::from_secs_f64(ceiling * random / 1_000.0)).await;
    let is_failed = |entry: &Entry| failed.iter().any(|it| it.id == entry.id);
    let rest = entries.into_iter().filter(is_failed).collect();
    Box::pin(send(client, url, rest, attempt + 1)).await;
}

pub(crate) async fn deliver(work: Work) {
    let sdk = config(&work.endpoint).await;
    let queue = sqs::Queue::open(&sdk, &work.url()).await.unwrap();
    run(
        queue,
        stream::iter((0..work.entries).map(entry)),
        work.entries,
    )
    .await;
}

pub(crate) async fn deliver_dynamodb(work: Work) {
    let sdk = config(&work.endpoint).await;
    let table = dynamodb::Table::open(&sdk, "orders").await.unwrap();
    run(
        table,
        stream::iter((0..work.entries).map(item)),
        work.entries,
    )
    .await;
}

async fn run<T: Target>(
    target: T,
    entries: impl Stream<Item = T::Entry> + Send + 'static,
    count: usize,
) {
    let started = clock::instant();
    let delivery = Delivery::new(target).requests(REQUESTS);
    // In a task, as the bare loops are.
    let delivery = tokio::spawn(delivery.send(entries));
    let report = delivery.await.unwrap().unwrap();
    assert_eq!(report.counts.delivered, count as u64);
    end(started);
}
