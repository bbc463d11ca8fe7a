//! About how many messages of a queue are in flight, which SQS limits to 120,000.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;
use tokio::time::{Instant, timeout};

use crate::queue::{Description, Queue};

/// From this number on, no more messages are held by visibility.
pub const HIGH: usize = 100_000;

/// The number at which SQS delivers no more messages.
pub const LIMIT: usize = 120_000;

/// How often the queue's attribute is read at most, while messages fail.
const INTERVAL: Duration = Duration::from_secs(60);

/// The attribute is read earlier, after [`SOON`], if this host has hidden this number of messages since.
const MANY: usize = 5_000;

/// How often the queue's attribute is read at most, while many messages fail.
const SOON: Duration = Duration::from_secs(5);

/// The longest time for reading it.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of a queue's messages in flight, estimated: the queue's attribute, and what this host has hidden since it was read.
#[derive(Debug)]
pub(super) struct InFlight {
    queue: Arc<dyn Queue>,
    read: AtomicUsize,
    added: AtomicUsize,
    last_read: Mutex<Instant>,
    is_reading: AtomicBool,
}

impl InFlight {
    pub(super) fn of(queue: &Arc<dyn Queue>, description: &Description) -> Arc<Self> {
        Arc::new(Self {
            queue: Arc::clone(queue),
            read: AtomicUsize::new(description.in_flight.unwrap_or_default()),
            added: AtomicUsize::new(0),
            last_read: Mutex::new(Instant::now()),
            is_reading: AtomicBool::new(false),
        })
    }

    /// Whether the queue is near its limit. Reads the attribute again, in the background, if the estimate is old.
    pub(super) fn is_high(self: &Arc<Self>) -> bool {
        let added = self.added.load(Relaxed);
        let last_read = *lock(&self.last_read);
        let interval = if added >= MANY { SOON } else { INTERVAL };
        if last_read.elapsed() >= interval {
            self.read_again();
        }
        self.read.load(Relaxed).saturating_add(added) >= HIGH
    }

    /// One more message is hidden.
    pub(super) fn add(&self) {
        self.added.fetch_add(1, Relaxed);
    }

    /// SQS delivers no more messages.
    pub(super) fn over_limit(&self) {
        self.read.fetch_max(LIMIT, Relaxed);
    }

    fn read_again(self: &Arc<Self>) {
        if self.is_reading.swap(true, Relaxed) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let added = this.added.load(Relaxed);
            // An estimate that can't be renewed is given up: SQS still reports when the limit is reached.
            let mut read = 0;
            match timeout(READ_TIMEOUT, this.queue.describe()).await {
                Ok(Ok(description)) => {
                    read = description.in_flight.unwrap_or_default();
                }
                Ok(Err(error)) => tracing::debug!(%error, "can't read the queue's attributes"),
                Err(_) => tracing::debug!("reading the queue's attributes takes too long"),
            }
            this.read.store(read, Relaxed);
            this.added.fetch_sub(added, Relaxed);
            let mut last_read = lock(&this.last_read);
            *last_read = Instant::now();
            this.is_reading.store(false, Relaxed);
        });
    }
}
