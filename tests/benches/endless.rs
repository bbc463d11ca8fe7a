//! A stand-in for a queue: it delivers messages with ids and receipt handles like those of SQS, and accepts every request at once. So only the host takes memory and time.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::Milliseconds;
use backstop_queue::{
    BatchResult, Description, Message, Outgoing, Queue, QueueError, ReceiptHandle, TrackedResult,
    VisibilityTimeout, ordinary_message,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use uuid::Uuid;

/// The bytes of a receipt handle: 412 characters of base64.
const HANDLE: usize = 308;

/// Delivers a number of messages, and accepts every change of their visibility.
#[derive(Debug)]
pub(crate) struct Endless {
    pub(crate) left: AtomicUsize,
}

#[async_trait::async_trait]
impl Queue for Endless {
    fn url(&self) -> &str {
        "bench:orders"
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        Ok(description())
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        _: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        let take = |left: usize| Some(left - left.min(max));
        let left = self.left.fetch_update(Relaxed, Relaxed, take).unwrap();
        if left == 0 {
            tokio::time::sleep(wait).await;
        }
        Ok((0..left.min(max)).map(|_| message()).collect())
    }

    fn receive_is_cancel_safe(&self) -> bool {
        true
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        Ok(vec![Ok(()); handles.len()])
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        Ok(vec![Ok(()); changes.len()])
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        Ok(vec![Ok(None); messages.len()])
    }
}

/// A message that no other one resembles: nothing in it can be compressed.
pub(crate) fn message() -> Message {
    let handle: [u8; HANDLE] = rand::random();
    let now = clock::now();
    Message {
        id: Uuid::new_v4().to_string(),
        receipt_handle: ReceiptHandle(BASE64.encode(handle).into()),
        body: "{\"order\": 1}".into(),
        sent: now,
        kept_since: now,
        first_received: now,
        sender: Some("AIDAEXAMPLE".to_owned()),
        ..ordinary_message()
    }
}

pub(crate) fn description() -> Description {
    Description {
        arn: "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned(),
        fifo: false,
        visibility_timeout: VisibilityTimeout::from_seconds(30),
        retention: Milliseconds(345_600_000),
        max_message_bytes: 1 << 20,
        in_flight: Some(0),
        visible: Some(0),
        redrive: None,
        delay: Milliseconds(0),
        delayed: None,
        access_policy: None,
    }
}
