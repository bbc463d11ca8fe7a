//! Dead letters that their queue did not take: kept invisible in the queue, and sent again until it does.
//!
//! The decision stands and the handler is not run again. A message is held until SQS's 12 hours from its receive are over, until the consumer ends, or never where too many bytes are held already: then it comes again by itself, and is attempted again.

use std::sync::Arc;
use std::time::Duration;

use backstop_backoff::jitter;
use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::Shared;
use super::lane::{hand_back, room};
use crate::failure::Milliseconds;
use crate::queue::{Message, Outgoing, VisibilityTimeout};
use crate::telemetry;

/// How much of memory the messages that are held may take, in KiB.
const KIBIBYTES: usize = 64 << 10;

/// Waits between two tries, in milliseconds: exponential with jitter.
const BASE: u32 = 5_000;
const CAP: u32 = 600_000;

/// For how long a message is hidden beyond its wait: until its next try has ended and it is hidden again.
const SLACK: Duration = Duration::from_secs(150);

/// For how long a message is hidden that can't be held.
const NOT_HELD: VisibilityTimeout = VisibilityTimeout::from_seconds(900);

/// The dead letters of one queue that wait to be taken.
pub(super) struct Held {
    bytes: Arc<Semaphore>,
    tasks: TaskTracker,
    waiting: Gauge,
}

impl Held {
    pub(super) fn of(queue: &str) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(KIBIBYTES)),
            tasks: TaskTracker::new(),
            waiting: telemetry::Queue::named(queue).dead_letters_waiting(),
        }
    }

    /// Returns when nothing is held any more. For the end: nothing may be added meanwhile.
    pub(super) async fn released(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Goes on sending the dead letter of a message, in place of whoever has handled it.
pub(super) async fn hold(shared: &Arc<Shared>, message: &Message, letter: Outgoing) {
    let size = letter.size().div_ceil(1_024).saturating_add(1);
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let bytes = Arc::clone(&shared.held.bytes).try_acquire_many_owned(size);
    let Ok(bytes) = bytes else {
        tracing::error!(
            "too many dead letters are waiting to be taken: the message stays in its queue, and is attempted again later"
        );
        shared.applier.postpone(message, NOT_HELD).await;
        return;
    };
    let held = HeldLetter {
        // The letter has its attributes.
        message: Message {
            attributes: Default::default(),
            ..message.clone()
        },
        letter,
        _bytes: bytes,
        _waiting: Waiting::counted_by(&shared.held.waiting),
    };
    let shared_too = Arc::clone(shared);
    shared
        .held
        .tasks
        .spawn(async move { held.send(&shared_too).await }.in_current_span());
}

struct HeldLetter {
    message: Message,
    letter: Outgoing,
    _bytes: OwnedSemaphorePermit,
    _waiting: Waiting,
}

impl HeldLetter {
    async fn send(self, shared: &Arc<Shared>) {
        for tries in 1.. {
            let ceiling = jitter::exponential(BASE, CAP, tries);
            let wait = Milliseconds(jitter::full(ceiling / 2, ceiling, rand::random()));
            let hidden = wait.as_duration() + SLACK;
            if Milliseconds::from_duration(hidden) > room(&self.message) {
                tracing::warn!(
                    "SQS hides a message for 12 hours at most: it comes again, and is attempted again"
                );
                return;
            }
            let hidden = VisibilityTimeout::rounded_up(hidden);
            if !shared.applier.postpone(&self.message, hidden).await {
                tracing::warn!(
                    "the message is no longer this consumer's: its dead letter is not sent"
                );
                return;
            }
            tokio::select! {
                () = sleep(wait.as_duration()) => {}
                () = shared.stop.cancelled() => {
                    return hand_back(shared, [self.message]).await;
                }
            }
            match shared
                .applier
                .send(&self.message, self.letter.clone())
                .await
            {
                Ok(_) => {
                    tracing::info!(tries, "the dead-letter queue has taken the message");
                    shared.history.forget(&self.message);
                    return;
                }
                Err(error) => {
                    tracing::debug!(tries, %error, "the dead-letter queue does not take the message")
                }
            }
        }
    }
}

/// Counted by the metric for as long as it lives.
struct Waiting(Gauge);

impl Waiting {
    fn counted_by(gauge: &Gauge) -> Self {
        gauge.increment(1);
        Self(gauge.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}
