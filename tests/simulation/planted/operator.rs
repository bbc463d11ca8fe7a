//! What the faulty program of an operator does to dead letters.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Timestamp;
use backstop_queue::{
    BatchResult, Description, Message, Outgoing, Queue, QueueError, ReceiptHandle, TrackedResult,
    VisibilityTimeout,
};

use super::Planted;

/// A queue in the hands of a faulty program.
#[derive(Debug)]
struct Spoilt {
    planted: Planted,
    queue: Arc<dyn Queue>,
    dead: bool,
}

/// The queue as this program uses it.
pub(crate) fn spoilt_operator(
    planted: Option<Planted>,
    queue: Arc<dyn Queue>,
    dead: bool,
) -> Arc<dyn Queue> {
    match planted {
        None => queue,
        Some(planted) => Arc::new(Spoilt {
            planted,
            queue,
            dead,
        }),
    }
}

#[async_trait]
impl Queue for Spoilt {
    fn url(&self) -> &str {
        self.queue.url()
    }

    fn now(&self) -> Timestamp {
        self.queue.now()
    }

    async fn describe(&self) -> Result<Description, QueueError> {
        self.queue.describe().await
    }

    async fn receive(
        &self,
        max: usize,
        wait: Duration,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<Message>, QueueError> {
        let messages = self.queue.receive(max, wait, visibility).await?;
        if self.planted == Planted::DeletesLettersFirst && self.dead && !messages.is_empty() {
            let handles = messages.iter().map(|it| it.receipt_handle.clone());
            let _ = self.queue.delete(&handles.collect::<Vec<_>>()).await;
        }
        Ok(messages)
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        self.queue.delete(handles).await
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        self.queue.change_visibility(changes).await
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        match self.planted {
            Planted::LosesWhatIsSentBack => Ok(messages.iter().map(|_| Ok(None)).collect()),
            Planted::SendsBackTwice => {
                let mut again = messages.to_vec();
                for message in &mut again {
                    let id = message.deduplication_id.as_mut();
                    id.into_iter().for_each(|id| id.push('2'));
                }
                let _ = self.queue.send_tracked(&again).await;
                self.queue.send_tracked(messages).await
            }
            _ => self.queue.send_tracked(messages).await,
        }
    }

    async fn tags(&self) -> Result<HashMap<String, String>, QueueError> {
        self.queue.tags().await
    }

    async fn set_tag(&self, key: &str, value: Option<&str>) -> Result<(), QueueError> {
        self.queue.set_tag(key, value).await
    }
}
