//! Fills a queue before a side empties it.

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use backstop_tests::aws::Queues;
use futures_util::{StreamExt, stream};

use crate::plan::Case;

/// How many messages a group of a FIFO queue has.
const GROUP: usize = 10;

/// The bytes of a batch, at most.
const BATCH: usize = 200 << 10;

/// The bytes of an attribute's name and value.
const ATTRIBUTE: usize = 100;

/// Sends messages whose bodies are their numbers, filled up with spaces to the size of the case, several batches at once.
pub(crate) async fn fill(queues: &Queues, count: usize, case: &Case) {
    let size = case.bytes + ATTRIBUTE * case.sent_attributes;
    let batch = (BATCH / size).clamp(1, 10);
    let batches: Vec<_> = (0..count).step_by(batch).collect();
    let sent = AtomicUsize::new(0);
    let send = |first: usize| {
        let entries = (first..count.min(first + batch)).map(|number| entry(number, count, case));
        let request = queues.client.send_message_batch().queue_url(&queues.url);
        let request = request.set_entries(Some(entries.collect()));
        let sent = &sent;
        async move {
            let answer = request.send().await.unwrap();
            sent.fetch_add(answer.successful.len(), Ordering::Relaxed);
        }
    };
    let at_once = if case.fifo { 1 } else { 8 };
    let mut sends = stream::iter(batches).map(send).buffer_unordered(at_once);
    while sends.next().await.is_some() {}
    drop(sends);
    assert_eq!(sent.into_inner(), count);
}

fn entry(number: usize, count: usize, case: &Case) -> SendMessageBatchRequestEntry {
    // A batch has a message of each of ten groups.
    let group = number % (count / GROUP).max(1);
    // The width of a format is 65,535 at most.
    let number = number.to_string();
    let rest = case.bytes.saturating_sub(number.len());
    let body = format!("{number}{}", " ".repeat(rest));
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(number)
        .message_body(body)
        .set_message_group_id(case.fifo.then(|| group.to_string()));
    for index in 0..case.sent_attributes {
        let name = format!("attribute-{index:02}");
        let value = "v".repeat(ATTRIBUTE - name.len());
        let value = MessageAttributeValue::builder()
            .data_type("String")
            .string_value(value)
            .build()
            .unwrap();
        entry = entry.message_attributes(name, value);
    }
    entry.build().unwrap()
}
