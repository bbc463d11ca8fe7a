//! Letters that a run has received and does not move: they stay invisible until the step ends, so that they are not received over and over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_queue::{Queue, ReceiptHandle, VisibilityTimeout};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::requests::PATIENT;

/// The most batches under way at the same time.
const REQUESTS: usize = 8;

/// The letters that a run holds, by their ids.
#[derive(Debug)]
pub(super) struct Hold {
    queue: Arc<dyn Queue>,
    visibility: VisibilityTimeout,
    handles: Arc<Mutex<HashMap<String, ReceiptHandle>>>,
    renewal: JoinHandle<()>,
    ended: CancellationToken,
}

impl Hold {
    /// Holds nothing yet. What it holds is renewed after each third of the visibility timeout.
    pub(super) fn start(queue: Arc<dyn Queue>, visibility: VisibilityTimeout) -> Self {
        let handles = Arc::<Mutex<HashMap<String, ReceiptHandle>>>::default();
        let ended = CancellationToken::new();
        let renewal = tokio::spawn({
            let (queue, handles) = (Arc::clone(&queue), Arc::clone(&handles));
            let ended = ended.clone();
            async move {
                let interval = visibility.as_duration() / 3;
                while ended.run_until_cancelled(sleep(interval)).await.is_some() {
                    let held: Vec<_> = lock(&handles).values().cloned().collect();
                    change(&queue, &held, visibility).await;
                }
            }
        });
        Self {
            queue,
            visibility,
            handles,
            renewal,
            ended,
        }
    }

    pub(super) fn visibility(&self) -> VisibilityTimeout {
        self.visibility
    }

    /// Holds a letter, or replaces the handle of one that it holds. Returns whether it held the letter before.
    pub(super) fn add(&self, id: &str, handle: ReceiptHandle) -> bool {
        lock(&self.handles).insert(id.to_owned(), handle).is_some()
    }

    /// Holds a letter no longer, without making it visible. Returns its handle.
    pub(super) fn take(&self, id: &str) -> Option<ReceiptHandle> {
        lock(&self.handles).remove(id)
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.handles).len()
    }

    /// Makes everything visible that it holds.
    pub(super) async fn release(self) {
        // A renewal that is under way must not hide a letter after it was made visible.
        self.ended.cancel();
        let _ = self.renewal.await;
        let held: Vec<_> = lock(&self.handles)
            .drain()
            .map(|(_, handle)| handle)
            .collect();
        change(&self.queue, &held, VisibilityTimeout::ZERO).await;
    }
}

/// Changes the visibility of letters. One that is gone can't be changed, and need not.
async fn change(queue: &Arc<dyn Queue>, handles: &[ReceiptHandle], timeout: VisibilityTimeout) {
    let changes: Vec<_> = handles.iter().map(|it| (it.clone(), timeout)).collect();
    let change = |changes: Vec<_>| async move { queue.change_visibility(&changes).await };
    PATIENT.batches(&changes, REQUESTS, change).await;
}

/// How long a run waits until the letters are visible that a killed run holds.
pub(super) fn longest_hidden(visibility: VisibilityTimeout) -> Duration {
    visibility.as_duration() + Duration::from_secs(2)
}
