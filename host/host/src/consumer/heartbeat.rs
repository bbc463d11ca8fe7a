//! Keeps the messages of a receive invisible while they are handled.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Shared;
use super::due::{Due, Place};
use crate::queue::{Message, SubmitError, VisibilityTimeout};

/// How long one renewal is retried. The next one follows soon.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The heartbeats of a consumer.
///
/// Most messages are settled before their first renewal is due. One task waits for that of all receives, and a receive gets a task of its own only then.
pub(super) struct Heartbeats {
    /// The receives whose first renewal is not due yet.
    waiting: Arc<Due<Weak<Heartbeat>>>,
    _task: AbortOnDropHandle<()>,
}

/// The heartbeat of one receive. It renews the visibility timeout of its messages after each third of it, counted from the receive, until it is dropped.
///
/// A message leaves the heartbeat before the last change of its visibility, so that no renewal overwrites that change.
pub(super) struct Heartbeat {
    messages: Arc<[Kept]>,
    place: Place,
    renewing: OnceLock<AbortOnDropHandle<()>>,
    heartbeats: Arc<Heartbeats>,
    /// The consumer runs until this is dropped.
    _token: TaskTrackerToken,
}

/// A message that is kept invisible until it is released.
struct Kept {
    /// The same for a later receive of the message, and another for a copy of it.
    identity: u64,
    /// Locked during its renewal. `None` once it is released.
    message: Mutex<Option<Arc<Message>>>,
}

impl Heartbeats {
    pub(super) fn start(shared: &Arc<Shared>) -> Arc<Self> {
        let waiting = Arc::new(Due::new());
        let task = tokio::spawn(start_renewing(Arc::clone(&waiting), Arc::clone(shared)));
        Arc::new(Self {
            waiting,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Starts to keep these messages invisible. They were received at the same time.
    pub(super) fn keep<'a>(
        self: &Arc<Self>,
        shared: &Shared,
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        token: TaskTrackerToken,
    ) -> Arc<Heartbeat> {
        let mut received = None;
        let messages = messages.into_iter().map(|message| {
            received.get_or_insert(message.received);
            Kept {
                identity: identity(message),
                message: Mutex::new(Some(Arc::clone(message))),
            }
        });
        let messages: Arc<[Kept]> = messages.collect();
        let first_renewal = received.unwrap_or_else(Instant::now) + third(shared);
        let heartbeat = Arc::new(Heartbeat {
            messages,
            place: self.waiting.place(first_renewal),
            renewing: OnceLock::new(),
            heartbeats: Arc::clone(self),
            _token: token,
        });
        self.waiting
            .add(heartbeat.place, Arc::downgrade(&heartbeat));
        heartbeat
    }
}

/// Starts the renewals of each receive when its first one is due.
async fn start_renewing(waiting: Arc<Due<Weak<Heartbeat>>>, shared: Arc<Shared>) {
    loop {
        if let Some(heartbeat) = waiting.next().await.upgrade() {
            heartbeat.start_renewing(&shared);
        }
    }
}

impl Heartbeat {
    /// Renews the visibility timeouts now, and after each further third of them.
    fn start_renewing(&self, shared: &Arc<Shared>) {
        let (shared, kept) = (Arc::clone(shared), Arc::clone(&self.messages));
        let (first, third) = (self.place.due(), third(&shared));
        let task = tokio::spawn(async move {
            let mut ticks = interval_at(first, third);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let until = Instant::now() + REQUEST_TIMEOUT.min(third);
                join_all(kept.iter().map(|kept| kept.renew(&shared, until))).await;
            }
        });
        let _ = self.renewing.set(AbortOnDropHandle::new(task));
    }

    /// Stops to keep this message invisible, of which there may be a later receive. A renewal of it under way has ended when this returns.
    pub(super) async fn release(&self, message: &Message) {
        let released = identity(message);
        for kept in &*self.messages {
            if kept.identity == released {
                kept.message.lock().await.take();
            }
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.heartbeats.waiting.remove(self.place);
    }
}

fn third(shared: &Shared) -> Duration {
    shared.visibility.as_duration() / 3
}

fn identity(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&message.id, message.kept_since.0).hash(&mut hasher);
    hasher.finish()
}

impl Kept {
    /// Keeps the message invisible for another visibility timeout, as far as SQS's 12 hours from its receive allow.
    async fn renew(&self, shared: &Shared, until: Instant) {
        let message = self.message.lock().await;
        let Some(message) = message.as_ref().and_then(|it| shared.receipts.kept(it)) else {
            return;
        };
        let longest = VisibilityTimeout::rounded_up(message.max_delay().as_duration());
        let timeout = shared.visibility.min(longest);
        if timeout == VisibilityTimeout::ZERO {
            return;
        }
        match shared
            .settler
            .change_visibility_now(&message, timeout, until)
            .await
        {
            Ok(()) => {}
            // Deleted in the meantime, or received by another consumer.
            Err(SubmitError::Entry(error)) if !error.retryable => {
                tracing::debug!(id = message.id, %error, "the message no longer belongs to this consumer");
            }
            Err(error) => tracing::warn!(
                id = message.id,
                %error,
                "a heartbeat failed: the message may be delivered again while it is handled"
            ),
        }
    }
}
