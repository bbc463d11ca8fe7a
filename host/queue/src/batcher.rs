//! Collects single entries into batches of ten: waits briefly for more, reads the result of every entry, and retries those that may still succeed.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use backstop_core::backoff::Backoff;
use backstop_core::lock::lock;
use futures_util::future::join_all;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::linger::{Linger, Until};
use super::{BATCH_BYTES, BATCH_ENTRIES, BatchResult, EntryError, QueueError};

/// The delays between retries.
const BACKOFF: Backoff = Backoff::milliseconds(50, 5_000);

/// Why an entry failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
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

    /// The delays before it is sent again after a request that may have been carried out. Requests that change nothing when they are repeated need no longer ones.
    const AFTER_UNKNOWN: Backoff = BACKOFF;

    /// The bytes that it adds to the size of a request.
    fn size(&self) -> usize;
}

/// Sends the request for a batch of entries.
pub(super) type Request<E> =
    Arc<dyn Fn(Vec<E>) -> Pin<Box<dyn Future<Output = BatchResult> + Send>> + Send + Sync>;

/// Collects entries. Whoever submits the last entry of a full batch sends it; a task sends those whose linger is over.
pub(super) struct Batcher<E> {
    shared: Arc<Shared<E>>,
    _lingering: AbortOnDropHandle<()>,
}

struct Shared<E> {
    linger: Linger,
    request: Request<E>,
    permits: Arc<Semaphore>,
    open: Mutex<Open<E>>,
    /// A batch was begun while there was none.
    begun: Notify,
}

/// The batch that is not full yet.
struct Open<E> {
    entries: Vec<Pending<E>>,
    bytes: usize,
    /// When it is sent at the latest.
    until: Until,
}

struct Pending<E> {
    entry: E,
    until: Instant,
    /// The error is boxed: an entry for itself is small, and there is one for each message.
    done: oneshot::Sender<Result<(), Box<SubmitError>>>,
}

impl<E: Entry> Batcher<E> {
    /// An entry waits for at most `linger` until its batch is sent, or for longer while [`Entry::CONCURRENT`] batches are under way.
    pub(super) fn start(linger: impl Into<Linger>, request: Request<E>) -> Self {
        let linger = linger.into();
        let until = linger.begin();
        let shared = Arc::new(Shared {
            linger,
            request,
            permits: Arc::new(Semaphore::new(E::CONCURRENT)),
            open: Mutex::new(Open {
                entries: Vec::new(),
                bytes: 0,
                until,
            }),
            begun: Notify::new(),
        });
        let lingering = tokio::spawn(Arc::clone(&shared).send_lingering());
        Self {
            shared,
            _lingering: AbortOnDropHandle::new(lingering),
        }
    }

    /// Sends the entry in a batch, with retries until it succeeds, is rejected, or `until` has passed.
    pub(super) async fn submit(&self, entry: E, until: Instant) -> Result<(), SubmitError> {
        let (done, outcome) = oneshot::channel();
        let pending = Pending { entry, until, done };
        let is_begun = {
            let mut open = self.shared.open();
            let (linger, before) = (&self.shared.linger, open.entries.len());
            for full in open.add(pending, linger) {
                self.shared.send(full, None);
            }
            linger.changed(before, open.entries.len());
            before == 0 && !open.entries.is_empty()
        };
        if is_begun {
            self.shared.begun.notify_one();
        }
        match outcome.await {
            Ok(outcome) => outcome.map_err(|error| *error),
            Err(_) => Err(SubmitError::Ended),
        }
    }
}

impl<E: Entry> Open<E> {
    /// Adds an entry. Returns the batches that are full: one, or two if an entry of the largest size follows others.
    fn add(
        &mut self,
        pending: Pending<E>,
        linger: &Linger,
    ) -> impl Iterator<Item = Vec<Pending<E>>> {
        let size = pending.entry.size();
        let too_large = self.bytes + size > BATCH_BYTES && !self.entries.is_empty();
        let before = too_large.then(|| self.take());
        if self.entries.is_empty() {
            self.until = linger.begin();
        }
        self.bytes += size;
        self.entries.push(pending);
        let is_full = self.entries.len() == BATCH_ENTRIES || self.bytes >= BATCH_BYTES;
        let full = is_full.then(|| self.take());
        before.into_iter().chain(full)
    }

    fn take(&mut self) -> Vec<Pending<E>> {
        self.bytes = 0;
        mem::replace(&mut self.entries, Vec::with_capacity(BATCH_ENTRIES))
    }
}

impl<E: Entry> Shared<E> {
    fn open(&self) -> MutexGuard<'_, Open<E>> {
        lock(&self.open)
    }

    /// Sends batches that do not become full in time.
    async fn send_lingering(self: Arc<Self>) {
        loop {
            self.begun.notified().await;
            while let Some(until) = self.lingers_until() {
                self.linger.ended(until).await;
                // While too many batches are under way, it goes on to fill.
                let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                    return;
                };
                let mut open = self.open();
                // If not, a full batch was sent meanwhile, and this one begun later.
                if self.linger.is_over(open.until) && !open.entries.is_empty() {
                    let batch = open.take();
                    self.linger.changed(batch.len(), 0);
                    drop(open);
                    self.send(batch, Some(permit));
                }
            }
        }
    }

    fn lingers_until(&self) -> Option<Until> {
        let open = self.open();
        (!open.entries.is_empty()).then_some(open.until)
    }

    /// Sends a batch once there are not too many others under way.
    fn send(&self, batch: Vec<Pending<E>>, permit: Option<OwnedSemaphorePermit>) {
        let (permits, request) = (Arc::clone(&self.permits), Arc::clone(&self.request));
        tokio::spawn(async move {
            let permit = match permit {
                Some(permit) => Ok(permit),
                None => permits.acquire_owned().await,
            };
            deliver(batch, request).await;
            drop(permit);
        });
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
        tries += 1;
        let is_unknown = |outcome: &Result<(), Fault>| match outcome {
            Ok(()) => false,
            Err(Fault::Entry(error)) => error.is_unknown(),
            Err(Fault::Request(error)) => error.is_unknown(),
        };
        let is_lost = outcomes.len() < batch.len() || outcomes.iter().any(is_unknown);
        let backoff = if is_lost { E::AFTER_UNKNOWN } else { BACKOFF };
        let wait = backoff.wait(tries, rand::random());
        let again = Instant::now() + wait;
        let outcomes = outcomes.into_iter().chain(std::iter::repeat_with(|| {
            Err(Fault::Entry(EntryError::missing()))
        }));
        batch = batch
            .into_iter()
            .zip(outcomes)
            .filter_map(|(pending, outcome)| pending.settle(outcome, again))
            .collect();
        if !batch.is_empty() {
            sleep(wait).await;
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
    /// Reports the result to the caller, or returns the entry for another try, which would be at this time.
    fn settle(self, outcome: Result<(), Fault>, again: Instant) -> Option<Self> {
        let (retryable, error) = match outcome {
            Ok(()) => {
                let _ = self.done.send(Ok(()));
                return None;
            }
            Err(Fault::Entry(error)) => (error.retryable, SubmitError::Entry(error)),
            Err(Fault::Request(error)) => (error.retryable, SubmitError::Request(error)),
        };
        if retryable && again < self.until {
            return Some(self);
        }
        let _ = self.done.send(Err(Box::new(error)));
        None
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
