//! Loops of receive and delete, as many as are asked for, with the SDK as it is. With failures, a loop also hides the failed messages of a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName,
};
use backstop_tests::aws;
use futures_util::future::join_all;
use tokio::sync::Notify;

use crate::Work;
use crate::run::Stopwatch;

/// How long a failed message is hidden, in seconds: longer than a run.
const HIDDEN: i32 = 60;

/// Consumes the messages, and ends with the process.
pub(crate) async fn run(work: Work) {
    let client = Client::new(&aws::config(&work.endpoint).await);
    let work = Arc::new(work);
    let left = Arc::new(AtomicUsize::new(work.messages));
    let done = Arc::new(Notify::new());
    let stopwatch = Stopwatch::start();
    let urls: Vec<Arc<str>> = work.urls.split(',').map(Arc::from).collect();
    let posts = Arc::new(reqwest::Client::new());
    // Each queue has a poller, and the others share them.
    for poller in 0..work.polls.max(urls.len()) {
        let (client, work) = (client.clone(), Arc::clone(&work));
        let (left, done) = (Arc::clone(&left), Arc::clone(&done));
        let (url, posts) = (Arc::clone(&urls[poller % urls.len()]), Arc::clone(&posts));
        tokio::spawn(async move {
            loop {
                let settled = turn(&client, &url, &posts, &work).await;
                if left.fetch_sub(settled, Ordering::Relaxed) == settled {
                    done.notify_one();
                }
            }
        });
    }
    done.notified().await;
    stopwatch.end();
}

/// Receives ten messages and settles them. Returns how many there were.
async fn turn(client: &Client, url: &str, posts: &reqwest::Client, work: &Work) -> usize {
    let mut receive = client
        .receive_message()
        .queue_url(url)
        .max_number_of_messages(10)
        .wait_time_seconds(20);
    if work.attributes {
        receive = receive
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
    }
    let received = receive.send().await.unwrap();
    let messages = received.messages.unwrap_or_default();
    let count = messages.len();
    if !work.worker.is_empty() {
        let bodies = messages
            .iter()
            .map(|message| message.body().unwrap().to_owned());
        let all = bodies.map(|body| posts.post(&work.worker).body(body).send());
        for answer in join_all(all).await {
            assert!(answer.unwrap().status().is_success());
        }
    }
    let fails = |message: &Message| work.fails(message.body().unwrap());
    let (failed, succeeded): (Vec<_>, Vec<_>) = messages.into_iter().partition(fails);
    tokio::join!(delete(client, url, succeeded), hide(client, url, failed));
    count
}

async fn delete(client: &Client, url: &str, messages: Vec<Message>) {
    if messages.is_empty() {
        return;
    }
    let entries = messages.into_iter().enumerate().map(|(id, message)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(id.to_string());
        entry
            .set_receipt_handle(message.receipt_handle)
            .build()
            .unwrap()
    });
    let request = client.delete_message_batch().queue_url(url);
    let answer = request.set_entries(Some(entries.collect())).send().await;
    assert!(answer.unwrap().failed.is_empty());
}

async fn hide(client: &Client, url: &str, messages: Vec<Message>) {
    if messages.is_empty() {
        return;
    }
    let entries = messages.into_iter().enumerate().map(|(id, message)| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id.to_string());
        let entry = entry.visibility_timeout(HIDDEN);
        entry
            .set_receipt_handle(message.receipt_handle)
            .build()
            .unwrap()
    });
    let request = client.change_message_visibility_batch().queue_url(url);
    let answer = request.set_entries(Some(entries.collect())).send().await;
    assert!(answer.unwrap().failed.is_empty());
}
