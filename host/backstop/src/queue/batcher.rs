//! Collects single requests into batches of ten: waits a little for more, reads every entry of the answer, and tries again what may still succeed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::{BATCH_BYTES, BATCH_ENTRIES, BatchResult, EntryError, QueueError};

/// Batches under way at once.
const CONCURRENT: usize = 16;

/// The waits before another try.
const BACKOFF: Backoff = Backoff::milliseconds(50, 5_000);

/// Why an entry was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    /// The queue refused the entry for good, or its time ran out.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The whole request failed for good, or its time ran out.
    #[error(transparent)]
    Request(#[from] QueueError),
    /// Whoever sends the batches has ended.
    #[error("the program is ending")]
    Ended,
}

/// What a batch is made of.
pub(super) trait Entry: Clone + Send + 'static {
    /// What it adds to the size of a request.
    fn size(&self) -> usize;
}

/// The request for a batch of entries.
pub(super) type Request<E> =
    Arc<dyn Fn(Vec<E>) -> Pin<Box<dyn Future<Output = BatchResult> + Send>> + Send + Sync>;

/// Hands entries to the task that sends them. Cheap to clone; the task ends with the last of its clones.
pub(super) struct Batcher<E> {
    entries: mpsc::Sender<Pending<E>>,
}

impl<E> Clone for Batcher<E> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
        }
    }
}

struct Pending<E> {
    entry: E,
    until: Instant,
    done: oneshot::Sender<Result<(), GaveUp>>,
}

impl<E: Entry> Batcher<E> {
    /// Starts the task. An entry waits for at most `linger` until its batch is sent.
    pub(super) fn start(linger: Duration, request: Request<E>) -> Self {
        let (entries, waiting) = mpsc::channel(1_000);
        tokio::spawn(collect(waiting, linger, request));
        Self { entries }
    }

    /// Sends the entry with others, again and again until it succeeds, is refused, or `until` has come.
    pub(super) async fn submit(&self, entry: E, until: Instant) -> Result<(), GaveUp> {
        let (done, outcome) = oneshot::channel();
        let pending = Pending { entry, until, done };
        self.entries
            .send(pending)
            .await
            .map_err(|_| GaveUp::Ended)?;
        outcome.await.unwrap_or(Err(GaveUp::Ended))
    }
}

async fn collect<E: Entry>(
    mut waiting: mpsc::Receiver<Pending<E>>,
    linger: Duration,
    request: Request<E>,
) {
    let places = Arc::new(Semaphore::new(CONCURRENT));
    let mut next = waiting.recv().await;
    while let Some(first) = next.take() {
        let until = Instant::now() + linger;
        let mut size = first.entry.size();
        let mut batch = vec![first];
        while batch.len() < BATCH_ENTRIES {
            let Ok(Some(pending)) = timeout_at(until, waiting.recv()).await else {
                break;
            };
            size += pending.entry.size();
            if size > BATCH_BYTES {
                next = Some(pending);
                break;
            }
            batch.push(pending);
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let request = Arc::clone(&request);
        tokio::spawn(async move {
            deliver(batch, request).await;
            drop(place);
        });
        if next.is_none() {
            next = waiting.recv().await;
        }
    }
}

/// Sends a batch, and what failed of it again with a backoff in between, until nothing is left to be tried.
async fn deliver<E: Entry>(mut batch: Vec<Pending<E>>, request: Request<E>) {
    let mut tries = 0;
    // What nobody waits for any more is not sent: whoever gave up on it has said so elsewhere.
    let wanted = |batch: &mut Vec<Pending<E>>| batch.retain(|pending| !pending.done.is_closed());
    wanted(&mut batch);
    while !batch.is_empty() {
        let entries = batch.iter().map(|pending| pending.entry.clone()).collect();
        let outcomes = match request(entries).await {
            Ok(outcomes) => outcomes
                .into_iter()
                .map(|outcome| outcome.map_err(Fault::Entry))
                .collect(),
            // One of them may be what the queue does not take.
            Err(error) if batch.len() > 1 && error.may_be_of_an_entry() => {
                let singly = batch
                    .into_iter()
                    .map(|pending| Box::pin(deliver(vec![pending], Arc::clone(&request))));
                join_all(singly).await;
                return;
            }
            Err(error) => vec![Err(Fault::Request(error)); batch.len()],
        };
        let now = Instant::now();
        let outcomes = outcomes.into_iter().chain(std::iter::repeat_with(|| {
            Err(Fault::Entry(EntryError::unanswered()))
        }));
        batch = batch
            .into_iter()
            .zip(outcomes)
            .filter_map(|(pending, outcome)| pending.settle(outcome, now))
            .collect();
        if !batch.is_empty() {
            tries += 1;
            sleep(BACKOFF.wait(tries, rand::random())).await;
            wanted(&mut batch);
        }
    }
}

#[derive(Clone)]
enum Fault {
    Entry(EntryError),
    Request(QueueError),
}

impl<E> Pending<E> {
    /// Tells the outcome to whoever waits for it, or gives the entry back for another try.
    fn settle(self, outcome: Result<(), Fault>, now: Instant) -> Option<Self> {
        let (retryable, gave_up) = match outcome {
            Ok(()) => {
                let _ = self.done.send(Ok(()));
                return None;
            }
            Err(Fault::Entry(error)) => (error.retryable, GaveUp::Entry(error)),
            Err(Fault::Request(error)) => (error.retryable, GaveUp::Request(error)),
        };
        if retryable && now < self.until {
            return Some(self);
        }
        let _ = self.done.send(Err(gave_up));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Debug, PartialEq)]
    struct Sized(u32, usize);

    impl Entry for Sized {
        fn size(&self) -> usize {
            self.1
        }
    }

    type Seen = Arc<Mutex<Vec<Vec<u32>>>>;

    /// A request that answers as `answer` says for each entry and its number of earlier tries, and notes every batch.
    fn scripted(
        answer: impl Fn(u32, usize) -> Result<(), EntryError> + Send + Sync + 'static,
    ) -> (Seen, Request<Sized>) {
        let seen = Seen::default();
        let noted = Arc::clone(&seen);
        let request: Request<Sized> = Arc::new(move |entries| {
            let mut noted = noted.lock().unwrap();
            let results = entries
                .iter()
                .map(|entry| {
                    answer(
                        entry.0,
                        noted.iter().flatten().filter(|id| **id == entry.0).count(),
                    )
                })
                .collect();
            noted.push(entries.iter().map(|entry| entry.0).collect());
            Box::pin(async move { Ok(results) })
        });
        (seen, request)
    }

    async fn submit_all(batcher: &Batcher<Sized>, entries: Vec<Sized>) -> Vec<Result<(), GaveUp>> {
        let until = Instant::now() + Duration::from_secs(60);
        let submitted = entries
            .into_iter()
            .map(|entry| batcher.submit(entry, until));
        futures_util::future::join_all(submitted).await
    }

    #[tokio::test(start_paused = true)]
    async fn entries_go_in_batches_of_ten_and_the_rest_after_the_linger() {
        let (seen, request) = scripted(|_, _| Ok(()));
        let batcher = Batcher::start(Duration::from_millis(100), request);
        let outcomes = submit_all(&batcher, (0..23).map(|id| Sized(id, 1)).collect()).await;
        assert!(outcomes.iter().all(Result::is_ok));
        let sizes: Vec<_> = seen.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(sizes, [10, 10, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_never_larger_than_a_request_may_be() {
        let (seen, request) = scripted(|_, _| Ok(()));
        let batcher = Batcher::start(Duration::from_millis(100), request);
        let half = BATCH_BYTES / 2;
        submit_all(
            &batcher,
            vec![
                Sized(0, half),
                Sized(1, half),
                Sized(2, 1),
                Sized(3, BATCH_BYTES),
            ],
        )
        .await;
        assert_eq!(*seen.lock().unwrap(), [vec![0, 1], vec![2], vec![3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_failed_and_may_succeed_is_tried_again() {
        let (seen, request) = scripted(|id, tries| match (id, tries) {
            (1, 0..=1) => Err(EntryError::new("InternalError", "", false)),
            (2, _) => Err(EntryError::new("ReceiptHandleIsInvalid", "", true)),
            _ => Ok(()),
        });
        let batcher = Batcher::start(Duration::from_millis(10), request);
        let outcomes = submit_all(&batcher, (0..4).map(|id| Sized(id, 1)).collect()).await;
        let refused = GaveUp::Entry(EntryError::new("ReceiptHandleIsInvalid", "", true));
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(refused), Ok(())]);
        assert_eq!(*seen.lock().unwrap(), [vec![0, 1, 2, 3], vec![1], vec![1]]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_breaks_its_batch_holds_up_no_other() {
        let seen = Seen::default();
        let noted = Arc::clone(&seen);
        let request: Request<Sized> = Arc::new(move |entries| {
            let ids: Vec<_> = entries.iter().map(|entry| entry.0).collect();
            noted.lock().unwrap().push(ids.clone());
            let code = "AWS.SimpleQueueService.BatchRequestTooLong";
            let result = match ids.contains(&1) {
                true => Err(QueueError::new("SendMessageBatch", code, "")),
                false => Ok(vec![Ok(()); ids.len()]),
            };
            Box::pin(async move { result })
        });
        let batcher = Batcher::start(Duration::from_millis(10), request);
        let outcomes = submit_all(&batcher, (0..3).map(|id| Sized(id, 1)).collect()).await;
        let good: Vec<_> = outcomes.iter().map(Result::is_ok).collect();
        assert_eq!(good, [true, false, true]);
        let singly = [vec![0, 1, 2], vec![0], vec![1], vec![2]];
        assert_eq!(*seen.lock().unwrap(), singly);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_waits_for_any_more_is_not_sent() {
        let (seen, request) = scripted(|_, _| Ok(()));
        let batcher = Batcher::start(Duration::from_millis(100), request);
        let until = Instant::now() + Duration::from_secs(60);
        let soon = Duration::from_millis(10);
        let given_up = tokio::time::timeout(soon, batcher.submit(Sized(0, 1), until)).await;
        assert!(given_up.is_err());
        assert_eq!(batcher.submit(Sized(1, 1), until).await, Ok(()));
        assert_eq!(*seen.lock().unwrap(), [vec![1]]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_given_up_when_its_time_is_over() {
        let (seen, request) = scripted(|_, _| Err(EntryError::new("InternalError", "", false)));
        let batcher = Batcher::start(Duration::ZERO, request);
        let until = Instant::now() + Duration::from_secs(20);
        let outcome = batcher.submit(Sized(0, 1), until).await;
        assert_eq!(
            outcome,
            Err(GaveUp::Entry(EntryError::new("InternalError", "", false)))
        );
        assert!(Instant::now() >= until && seen.lock().unwrap().len() > 3);
    }
}
