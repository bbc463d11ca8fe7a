//! Dead letters that the dead-letter queue refused: their messages stay invisible, and the letters are sent again.
//!
//! The decision stays, and the handler does not run again. A message is held until SQS's 12 hours from its receive are over or the consumer stops. If too many bytes are held already it is not held, and the next receive makes another attempt.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::backoff::Backoff;
use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::Shared;
use super::measures::CountedLetter;
use super::requests::{delete, hand_back, keep_invisible, postpone};
use crate::queue::{Attribute, Message, Outgoing, VisibilityTimeout};
use crate::record::LifeEvent;
use crate::telemetry;
use backstop_settle::{DeadLetterQueue, REQUEST_TIMEOUT};
use backstop_traces::scope;

/// The most memory that held messages may take, in KiB.
const KIBIBYTES: usize = 64 << 10;

/// The waits before another try.
const BACKOFF: Backoff = Backoff::milliseconds(5_000, 600_000);

/// How much longer than its wait a message is hidden: until its next try has ended and it is hidden again.
const SLACK: Duration = Duration::from_secs(150);

/// How long a message that cannot be held is hidden.
const NOT_HELD: VisibilityTimeout = VisibilityTimeout::from_seconds(900);

/// The refused dead letters of one queue.
pub(super) struct Held {
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    waiting: Gauge,
}

impl Held {
    pub(super) fn of(queue: &str) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(KIBIBYTES)),
            tasks: TaskTracker::new(),
            waiting: telemetry::Queue::named(queue).dead_letters_waiting(),
        }
    }

    /// Waits until nothing is held. Called at the end, when nothing is added any more.
    pub(super) async fn released(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Sends the dead letter of a message again in the background, as long as it takes.
pub(super) async fn hold(
    shared: &Arc<Shared>,
    message: &Message,
    (letter, counted): (Outgoing, CountedLetter),
    queue: Arc<DeadLetterQueue>,
) {
    let size = letter.size().div_ceil(1_024).saturating_add(1);
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let permits = Arc::clone(&shared.held.permits).try_acquire_many_owned(size);
    let Ok(permits) = permits else {
        tracing::error!(
            "too many dead letters are held: the message stays in its queue and is attempted again later"
        );
        return postpone(shared, message, NOT_HELD).await;
    };
    let held = HeldLetter {
        // Its attributes are in the letter.
        message: Arc::new(Message {
            attributes: Default::default(),
            ..message.clone()
        }),
        letter,
        counted,
        queue,
        _permits: permits,
        _waiting: Waiting::counted_by(&shared.held.waiting),
    };
    shared
        .copies
        .held(message, message.max_delay().as_duration());
    let shared_too = Arc::clone(shared);
    shared.held.tasks.spawn(scope(
        async move { held.send(&shared_too).await }.in_current_span(),
    ));
}

struct HeldLetter {
    message: Arc<Message>,
    letter: Outgoing,
    counted: CountedLetter,
    queue: Arc<DeadLetterQueue>,
    _permits: OwnedSemaphorePermit,
    _waiting: Waiting,
}

impl HeldLetter {
    /// Why the message died, as its letter says.
    fn reason(&self) -> String {
        let reason = self.letter.attributes.get("BackstopReason");
        reason.map_or_else(String::new, Attribute::to_text)
    }

    async fn send(self, shared: &Arc<Shared>) {
        for tries in 1.. {
            let wait = BACKOFF.wait(tries, rand::random());
            let hidden = wait + SLACK;
            if hidden > self.message.max_delay().as_duration() {
                tracing::warn!(
                    "a message can be invisible for at most 12 hours: it is delivered and attempted again"
                );
                return;
            }
            let hidden = VisibilityTimeout::rounded_up(hidden);
            if !keep_invisible(shared, &self.message, hidden).await {
                tracing::warn!(
                    "the message no longer belongs to this consumer: its dead letter is not sent"
                );
                return;
            }
            tokio::select! {
                biased;
                () = sleep(wait) => {}
                () = shared.stop.cancelled() => {
                    return hand_back(shared, [self.message]).await;
                }
            }
            let (letter, until) = (self.letter.clone(), Instant::now() + REQUEST_TIMEOUT);
            match self.queue.send(letter, until).await {
                Ok(letter_id) => {
                    let events = shared.decider.events();
                    events.happened(&self.message.id, &self.message, || {
                        LifeEvent::DeadLettered {
                            reason: self.reason(),
                            dead_letter_queue: self.queue.arn().to_owned(),
                            letter_id,
                        }
                    });
                    tracing::info!(tries, "the dead-letter queue has accepted the message");
                    shared.stats.dead_lettered(&self.counted);
                    delete(shared, &self.message).await;
                    shared.history.forget(&self.message);
                    return;
                }
                Err(error) => {
                    shared.stats.dead_letters_refused.add(1);
                    tracing::debug!(tries, %error, "the dead-letter queue does not accept the message")
                }
            }
        }
    }
}

/// Counted by the metric as long as it exists.
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
