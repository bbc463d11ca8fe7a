//! Collects single entries into batches of ten: waits briefly for more, reads the result of every entry, and retries those that may still succeed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::{BATCH_BYTES, BATCH_ENTRIES, BatchResult, EntryError, QueueError};

/// The delays between retries.
const BACKOFF: Backoff = Backoff::milliseconds(50, 5_000);

/// Why an entry failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubmitError {
    /// The queue rejected the entry, or its deadline passed.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The request failed, or its deadline passed.
    #[error(transparent)]
    Request(#[from] QueueError),
    /// The task that sends the batches has ended.
    #[error("the program is shutting down")]
    Ended,
}

/// An entry of a batch.
pub(super) trait Entry: Clone + Send + 'static {
    /// The most batches under way at the same time.
    const CONCURRENT: usize;

    /// The bytes that it adds to the size of a request.
    fn size(&self) -> usize;
}

/// Sends the request for a batch of entries.
pub(super) type Request<E> =
    Arc<dyn Fn(Vec<E>) -> Pin<Box<dyn Future<Output = BatchResult> + Send>> + Send + Sync>;

/// Passes entries to the task that sends them. Cheap to clone; the task ends with the last clone.
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
    done: oneshot::Sender<Result<(), SubmitError>>,
}

impl<E: Entry> Batcher<E> {
    /// Starts the task. An entry waits for at most `linger` until its batch is sent, or for longer while [`Entry::CONCURRENT`] batches are under way.
    pub(super) fn start(linger: Duration, request: Request<E>) -> Self {
        let (entries, pending) = mpsc::channel(1_000);
        tokio::spawn(collect(pending, linger, request));
        Self { entries }
    }

    /// Sends the entry in a batch, with retries until it succeeds, is rejected, or `until` has passed.
    pub(super) async fn submit(&self, entry: E, until: Instant) -> Result<(), SubmitError> {
        let (done, outcome) = oneshot::channel();
        let pending = Pending { entry, until, done };
        self.entries
            .send(pending)
            .await
            .map_err(|_| SubmitError::Ended)?;
        outcome.await.unwrap_or(Err(SubmitError::Ended))
    }
}

async fn collect<E: Entry>(
    mut entries: mpsc::Receiver<Pending<E>>,
    linger: Duration,
    request: Request<E>,
) {
    let permits = Arc::new(Semaphore::new(E::CONCURRENT));
    let mut next = entries.recv().await;
    while let Some(first) = next.take() {
        let until = Instant::now() + linger;
        let mut size = first.entry.size();
        let mut batch = vec![first];
        while batch.len() < BATCH_ENTRIES {
            let Ok(Some(pending)) = timeout_at(until, entries.recv()).await else {
                break;
            };
            size += pending.entry.size();
            if size > BATCH_BYTES {
                next = Some(pending);
                break;
            }
            batch.push(pending);
        }
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let request = Arc::clone(&request);
        tokio::spawn(async move {
            deliver(batch, request).await;
            drop(permit);
        });
        if next.is_none() {
            next = entries.recv().await;
        }
    }
}

/// Sends a batch, and sends its failed entries again with backoff, until every entry has its result.
async fn deliver<E: Entry>(mut batch: Vec<Pending<E>>, request: Request<E>) {
    let mut tries = 0;
    // An entry whose caller has given up is not sent: the caller has already reported its failure.
    let drop_abandoned =
        |batch: &mut Vec<Pending<E>>| batch.retain(|pending| !pending.done.is_closed());
    drop_abandoned(&mut batch);
    while !batch.is_empty() {
        let entries = batch.iter().map(|pending| pending.entry.clone()).collect();
        let outcomes = match request(entries).await {
            Ok(outcomes) => outcomes
                .into_iter()
                .map(|outcome| outcome.map_err(Fault::Entry))
                .collect(),
            // One entry may be the reason: each is sent by itself.
            Err(error) if batch.len() > 1 && error.may_concern_one_entry() => {
                let deliveries = batch
                    .into_iter()
                    .map(|pending| Box::pin(deliver(vec![pending], Arc::clone(&request))));
                join_all(deliveries).await;
                return;
            }
            Err(error) => vec![Err(Fault::Request(error)); batch.len()],
        };
        let now = Instant::now();
        let outcomes = outcomes.into_iter().chain(std::iter::repeat_with(|| {
            Err(Fault::Entry(EntryError::missing()))
        }));
        batch = batch
            .into_iter()
            .zip(outcomes)
            .filter_map(|(pending, outcome)| pending.settle(outcome, now))
            .collect();
        if !batch.is_empty() {
            tries += 1;
            sleep(BACKOFF.wait(tries, rand::random())).await;
            drop_abandoned(&mut batch);
        }
    }
}

#[derive(Clone)]
enum Fault {
    Entry(EntryError),
    Request(QueueError),
}

impl<E> Pending<E> {
    /// Reports the result to the caller, or returns the entry for another try.
    fn settle(self, outcome: Result<(), Fault>, now: Instant) -> Option<Self> {
        let (retryable, error) = match outcome {
            Ok(()) => {
                let _ = self.done.send(Ok(()));
                return None;
            }
            Err(Fault::Entry(error)) => (error.retryable, SubmitError::Entry(error)),
            Err(Fault::Request(error)) => (error.retryable, SubmitError::Request(error)),
        };
        if retryable && now < self.until {
            return Some(self);
        }
        let _ = self.done.send(Err(error));
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
        const CONCURRENT: usize = 4;

        fn size(&self) -> usize {
            self.1
        }
    }

    type Seen = Arc<Mutex<Vec<Vec<u32>>>>;

    /// A request whose results come from `answer`, by entry and number of earlier tries. It records every batch.
    fn scripted(
        answer: impl Fn(u32, usize) -> Result<(), EntryError> + Send + Sync + 'static,
    ) -> (Seen, Request<Sized>) {
        let seen = Seen::default();
        let log = Arc::clone(&seen);
        let request: Request<Sized> = Arc::new(move |entries| {
            let mut log = log.lock().unwrap();
            let results = entries
                .iter()
                .map(|entry| {
                    answer(
                        entry.0,
                        log.iter().flatten().filter(|id| **id == entry.0).count(),
                    )
                })
                .collect();
            log.push(entries.iter().map(|entry| entry.0).collect());
            Box::pin(async move { Ok(results) })
        });
        (seen, request)
    }

    async fn submit_all(
        batcher: &Batcher<Sized>,
        entries: Vec<Sized>,
    ) -> Vec<Result<(), SubmitError>> {
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
    async fn a_batch_never_exceeds_the_size_limit_of_a_request() {
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
    async fn only_retryable_failures_are_sent_again() {
        let (seen, request) = scripted(|id, tries| match (id, tries) {
            (1, 0..=1) => Err(EntryError::new("InternalError", "", false)),
            (2, _) => Err(EntryError::new("ReceiptHandleIsInvalid", "", true)),
            _ => Ok(()),
        });
        let batcher = Batcher::start(Duration::from_millis(10), request);
        let outcomes = submit_all(&batcher, (0..4).map(|id| Sized(id, 1)).collect()).await;
        let rejected = SubmitError::Entry(EntryError::new("ReceiptHandleIsInvalid", "", true));
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(rejected), Ok(())]);
        assert_eq!(*seen.lock().unwrap(), [vec![0, 1, 2, 3], vec![1], vec![1]]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_fails_its_batch_does_not_fail_the_others() {
        let seen = Seen::default();
        let log = Arc::clone(&seen);
        let request: Request<Sized> = Arc::new(move |entries| {
            let ids: Vec<_> = entries.iter().map(|entry| entry.0).collect();
            log.lock().unwrap().push(ids.clone());
            let code = "AWS.SimpleQueueService.BatchRequestTooLong";
            let result = match ids.contains(&1) {
                true => Err(QueueError::new("SendMessageBatch", code, "")),
                false => Ok(vec![Ok(()); ids.len()]),
            };
            Box::pin(async move { result })
        });
        let batcher = Batcher::start(Duration::from_millis(10), request);
        let outcomes = submit_all(&batcher, (0..3).map(|id| Sized(id, 1)).collect()).await;
        let succeeded: Vec<_> = outcomes.iter().map(Result::is_ok).collect();
        assert_eq!(succeeded, [true, false, true]);
        let batches = [vec![0, 1, 2], vec![0], vec![1], vec![2]];
        assert_eq!(*seen.lock().unwrap(), batches);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_whose_caller_has_given_up_is_not_sent() {
        let (seen, request) = scripted(|_, _| Ok(()));
        let batcher = Batcher::start(Duration::from_millis(100), request);
        let until = Instant::now() + Duration::from_secs(60);
        let timeout = Duration::from_millis(10);
        let abandoned = tokio::time::timeout(timeout, batcher.submit(Sized(0, 1), until)).await;
        assert!(abandoned.is_err());
        assert_eq!(batcher.submit(Sized(1, 1), until).await, Ok(()));
        assert_eq!(*seen.lock().unwrap(), [vec![1]]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_fails_when_its_deadline_has_passed() {
        let (seen, request) = scripted(|_, _| Err(EntryError::new("InternalError", "", false)));
        let batcher = Batcher::start(Duration::ZERO, request);
        let until = Instant::now() + Duration::from_secs(20);
        let outcome = batcher.submit(Sized(0, 1), until).await;
        assert_eq!(
            outcome,
            Err(SubmitError::Entry(EntryError::new(
                "InternalError",
                "",
                false
            )))
        );
        assert!(Instant::now() >= until && seen.lock().unwrap().len() > 3);
    }
}
