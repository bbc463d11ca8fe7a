//! Collects single entries into batches of ten: waits briefly for more, reads the result of every entry, and retries those that may still succeed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use backstop_core::backoff::Backoff;
use backstop_core::lock::lock;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::batches::OpenBatch;
use super::linger::{Linger, Until};
use super::retry::{Backoffs, Round, until_settled};
use super::{EntryError, QueueError, SubmitError};

/// The delays between retries.
const BACKOFF: Backoff = Backoff::milliseconds(50, 5_000);

/// An entry of a batch.
pub(super) trait Entry: Clone + Send + 'static {
    /// What the queue answers to one that it accepts.
    type Accepted: Send + 'static;

    /// The most batches under way at the same time.
    const CONCURRENT: usize;

    /// The delays before it is sent again after a request that may have been carried out. Requests that change nothing when they are repeated need no longer ones.
    const AFTER_UNKNOWN: Backoff = BACKOFF;

    /// The bytes that it adds to the size of a request.
    fn size(&self) -> usize;
}

/// Sends the request for a batch of entries.
pub(super) type Request<E> = Arc<dyn Fn(Vec<E>) -> Answering<E> + Send + Sync>;

/// The answer to a request, with a result for each entry.
type Answering<E> = Pin<Box<dyn Future<Output = Answer<<E as Entry>::Accepted>> + Send>>;

/// The results of the entries of a request, in their order, or why it failed as a whole.
pub(super) type Answer<T> = Result<Vec<Result<T, EntryError>>, QueueError>;

/// Collects entries. Whoever submits the last entry of a full batch sends it; a task sends those whose linger is over.
pub(super) struct Batcher<E: Entry> {
    shared: Arc<Shared<E>>,
    _lingering: AbortOnDropHandle<()>,
}

struct Shared<E: Entry> {
    linger: Linger,
    request: Request<E>,
    permits: Arc<Semaphore>,
    open: Mutex<Open<E>>,
    /// A batch was begun while there was none.
    begun: Notify,
}

/// The batch that is not full yet.
struct Open<E: Entry> {
    batch: OpenBatch<Pending<E>>,
    /// When it is sent at the latest.
    until: Until,
}

struct Pending<E: Entry> {
    entry: E,
    until: Instant,
    /// The error is boxed: an entry for itself is small, and there is one for each message.
    done: oneshot::Sender<Result<E::Accepted, Box<SubmitError>>>,
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
                batch: OpenBatch::default(),
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
    pub(super) async fn submit(
        &self,
        entry: E,
        until: Instant,
    ) -> Result<E::Accepted, SubmitError> {
        let (done, outcome) = oneshot::channel();
        let pending = Pending { entry, until, done };
        let is_begun = {
            let mut open = self.shared.open();
            let (linger, before) = (&self.shared.linger, open.batch.len());
            for full in open.add(pending, linger) {
                self.shared.send(full, None);
            }
            linger.changed(before, open.batch.len());
            before == 0 && open.batch.len() > 0
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
    /// Adds an entry. Returns the batches that are full.
    fn add(
        &mut self,
        pending: Pending<E>,
        linger: &Linger,
    ) -> impl Iterator<Item = Vec<Pending<E>>> + use<E> {
        let size = pending.entry.size();
        let full = self.batch.add(pending, size);
        if self.batch.len() == 1 {
            self.until = linger.begin();
        }
        full
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
                if self.linger.is_over(open.until) && open.batch.len() > 0 {
                    let batch = open.batch.take();
                    self.linger.changed(batch.len(), 0);
                    drop(open);
                    self.send(batch, Some(permit));
                }
            }
        }
    }

    fn lingers_until(&self) -> Option<Until> {
        let open = self.open();
        (open.batch.len() > 0).then_some(open.until)
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
async fn deliver<E: Entry>(batch: Vec<Pending<E>>, request: Request<E>) {
    let backoffs = Backoffs {
        known: BACKOFF,
        unknown: E::AFTER_UNKNOWN,
    };
    // An entry whose caller has given up is not sent: the caller has already reported its failure.
    let entry = |it: &Pending<E>| (!it.done.is_closed()).then(|| it.entry.clone());
    until_settled(batch, backoffs, entry, |it| request(it), Pending::settle).await;
}

impl<E: Entry> Pending<E> {
    /// Reports the result to the caller, or returns the entry for another try.
    fn settle(self, result: Result<E::Accepted, SubmitError>, round: Round) -> Option<Self> {
        let is_retryable = result.as_ref().is_err_and(SubmitError::is_retryable);
        if is_retryable && Instant::now() + round.wait < self.until {
            return Some(self);
        }
        let _ = self.done.send(result.map_err(Box::new));
        None
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
