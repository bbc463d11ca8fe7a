//! What a faulty host does to its queue.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_queue::{
    Attribute, BatchResult, Description, Message, Outgoing, Queue, QueueError, ReceiptHandle,
    TrackedResult, VisibilityTimeout,
};
use tokio::time::sleep;

use super::Planted;

/// A queue in the hands of a faulty host.
#[derive(Debug)]
struct Spoilt {
    planted: Planted,
    queue: Arc<dyn Queue>,
    dead: bool,
    /// The messages that it holds back.
    held_back: Mutex<HashSet<ReceiptHandle>>,
}

/// The seconds for which a host holds messages back that may not be attempted now.
const HELD_BACK: RangeInclusive<u32> = 600..=661;

/// The queue as this host uses it.
pub(crate) fn spoilt(
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
            held_back: Mutex::default(),
        }),
    }
}

impl Spoilt {
    fn is(&self, planted: Planted) -> bool {
        self.planted == planted
    }

    async fn received(&self, mut messages: Vec<Message>) -> Result<Vec<Message>, QueueError> {
        let handles: Vec<_> = messages
            .iter()
            .map(|it| it.receipt_handle.clone())
            .collect();
        match self.planted {
            Planted::DeletesWhatItReceives if !handles.is_empty() => {
                let _ = self.queue.delete(&handles).await;
            }
            Planted::DropsHalfOfAReceive => messages.truncate(messages.len().div_ceil(2)),
            Planted::Reverses => messages.reverse(),
            Planted::CountsTwice => {
                for message in &mut messages {
                    message.receive_count = message.receive_count.saturating_add(1);
                }
            }
            Planted::StopsToReceive if messages.iter().any(|it| it.body.ends_with('7')) => {
                std::future::pending::<()>().await;
            }
            Planted::HandlesTwice => {
                let again = messages.clone();
                messages.extend(again);
                messages.truncate(10);
            }
            Planted::PollsForMinutes => sleep(Duration::from_secs(400)).await,
            _ => {}
        }
        Ok(messages)
    }

    /// Whether a message was held back before this change of its visibility.
    fn leaves(&self, (handle, timeout): &(ReceiptHandle, VisibilityTimeout)) -> bool {
        let mut held_back = lock(&self.held_back);
        if HELD_BACK.contains(&timeout.seconds()) {
            return !held_back.insert(handle.clone());
        }
        held_back.contains(handle)
    }

    /// The letters as the host sends them.
    fn letters(&self, messages: &[Outgoing]) -> Vec<Outgoing> {
        let mut letters = messages.to_vec();
        for letter in &mut letters {
            if self.is(Planted::LeavesOutReasons) {
                letter.attributes.clear();
            }
            if self.is(Planted::InventsReasons) {
                let reason = Attribute::string("no reason");
                letter
                    .attributes
                    .insert("BackstopReason".to_owned(), reason);
            }
        }
        letters
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
        if self.is(Planted::AsksTooOften) {
            for _ in 0..200 {
                let _ = self.queue.change_visibility(&[]).await;
            }
        }
        let messages = self.queue.receive(max, wait, visibility).await?;
        self.received(messages).await
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchResult {
        if self.is(Planted::NeverDeletes) {
            return Ok(handles.iter().map(|_| Ok(())).collect());
        }
        self.queue.delete(handles).await
    }

    async fn change_visibility(
        &self,
        changes: &[(ReceiptHandle, VisibilityTimeout)],
    ) -> BatchResult {
        let handles: Vec<_> = changes.iter().map(|it| it.0.clone()).collect();
        match self.planted {
            Planted::ChangesNoVisibility => Ok(handles.iter().map(|_| Ok(())).collect()),
            Planted::DeletesWhatFailed => self.queue.delete(&handles).await,
            Planted::DelaysForASecond => {
                let second = VisibilityTimeout::from_seconds(1);
                let changes: Vec<_> = handles.into_iter().map(|it| (it, second)).collect();
                self.queue.change_visibility(&changes).await
            }
            Planted::HidesForDays => {
                let days = |timeout: VisibilityTimeout| match timeout {
                    VisibilityTimeout::ZERO => timeout,
                    _ => VisibilityTimeout::from_seconds(40_000),
                };
                let changes: Vec<_> = changes
                    .iter()
                    .map(|(handle, timeout)| (handle.clone(), days(*timeout)))
                    .collect();
                self.queue.change_visibility(&changes).await
            }
            Planted::LeavesWhatItHoldsBack => {
                let mut results = Vec::new();
                for change in changes {
                    results.push(if self.leaves(change) {
                        Ok(())
                    } else {
                        let change = std::slice::from_ref(change);
                        self.queue.change_visibility(change).await?.remove(0)
                    });
                }
                Ok(results)
            }
            Planted::SendsCopies => {
                let copy = Outgoing {
                    group: Some("group-0".to_owned()),
                    ..Outgoing::new("order 0")
                };
                let _ = self.queue.send(&[copy]).await;
                self.queue.change_visibility(changes).await
            }
            _ => self.queue.change_visibility(changes).await,
        }
    }

    async fn send_tracked(&self, messages: &[Outgoing]) -> TrackedResult {
        if !self.dead {
            return self.queue.send_tracked(messages).await;
        }
        if self.is(Planted::LosesLetters) {
            return Ok(messages.iter().map(|_| Ok(None)).collect());
        }
        let letters = self.letters(messages);
        if self.is(Planted::SendsLettersTwice) {
            let _ = self.queue.send_tracked(&letters).await;
        }
        self.queue.send_tracked(&letters).await
    }
}
