//! The standalone consumer: receive, attempt, decide, apply, for one queue.
//!
//! [`Consumer::run`] is the loop; `lane` does the work and keeps messages invisible meanwhile; `apply` carries out what was decided.

mod apply;
mod budget;
mod heartbeat;
mod held;
mod history;
mod judge;
mod lane;
mod receive;
mod startup;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::decider::Decider;
use crate::handler::Handler;
use crate::queue::{Queue, VisibilityTimeout};
use apply::Applier;
use budget::Budget;
use held::Held;
use history::History;

pub use crate::config::Options;
pub(crate) use crate::config::longest_linger;
pub(crate) use startup::{Checked, fault};
pub use startup::{Fault, Faults, Ready, Warning, check};
pub use stats::{Stats, Summary};

/// How long the end waits, after the grace time, for what is in hand to be handed back. With the default grace time that is 29 s: containers are killed after 30.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);

/// One queue, its policy and its handler, checked and ready to run.
pub struct Consumer {
    name: String,
    ready: Ready,
    handler: Arc<dyn Handler>,
    decider: Decider,
    options: Options,
    stats: Arc<Stats>,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// What every part of a running consumer shares.
struct Shared {
    name: String,
    queue: Arc<dyn Queue>,
    fifo: bool,
    source: String,
    visibility: VisibilityTimeout,
    handler: Arc<dyn Handler>,
    decider: Decider,
    options: Options,
    applier: Applier,
    history: History,
    held: Held,
    stats: Arc<Stats>,
    /// No new attempts.
    stop: CancellationToken,
    /// Nothing is received any more.
    received_all: CancellationToken,
    /// No further waiting for attempts under way.
    abort: CancellationToken,
}

impl Consumer {
    /// A consumer of a queue that was checked: see [`check`].
    pub fn new(
        name: impl Into<String>,
        ready: Ready,
        handler: Arc<dyn Handler>,
        decider: Decider,
        options: Options,
    ) -> Self {
        let decider = decider.within_retention(ready.description.retention);
        let name = name.into();
        let shadow = decider.shadow().map(|shadow| Arc::clone(shadow.counts()));
        Self {
            stats: Arc::new(Stats::of(&name, shadow)),
            name,
            ready,
            handler,
            decider,
            options,
        }
    }

    /// What decides for it.
    pub(crate) fn decider(&self) -> &Decider {
        &self.decider
    }

    /// The counts, readable while it runs.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Receives and handles until `stop` is cancelled; then finishes what is in hand within the grace time, hands the rest back, and returns.
    pub async fn run(self, stop: CancellationToken) -> Summary {
        let Self {
            name,
            ready,
            handler,
            decider,
            options,
            stats,
        } = self;
        let stop = stop.child_token();
        let abort = CancellationToken::new();
        let visibility = options
            .visibility_timeout
            .unwrap_or(ready.description.visibility_timeout)
            .max(VisibilityTimeout::from_seconds(1));
        let linger = options.linger.min(longest_linger(visibility));
        let applier = Applier::start(&ready, linger, Arc::clone(&stats));
        let shared = Arc::new(Shared {
            held: Held::of(&name),
            name,
            visibility,
            fifo: ready.description.fifo,
            source: ready.description.arn,
            queue: ready.queue,
            handler,
            decider,
            applier,
            history: History::of(ready.description.fifo),
            stats: Arc::clone(&stats),
            stop: stop.clone(),
            received_all: CancellationToken::new(),
            abort: abort.clone(),
            options,
        });
        let lanes = TaskTracker::new();
        let room = Arc::new(Semaphore::new(shared.options.max_in_flight.max(1)));
        let budget = Budget::new(shared.options.max_bytes_in_flight);
        // Grace counts from the stop, for the last poll as for what is in hand.
        let grace_is_over = async {
            stop.cancelled().await;
            sleep(shared.options.grace).await;
        };
        let in_hand = || async {
            lanes.close();
            lanes.wait().await;
            shared.held.released().await;
        };
        let ended = async {
            receive::run(&shared, &lanes, &room, &budget).await;
            shared.received_all.cancel();
            in_hand().await;
        };
        let ended_in_time = tokio::select! {
            biased;
            () = ended => true,
            () = grace_is_over => false,
        };
        if !ended_in_time {
            tracing::warn!(
                queue = shared.name,
                "the grace time is over: what is still under way is handed back"
            );
            shared.received_all.cancel();
            shared.abort.cancel();
            if timeout(SHUTDOWN_TIMEOUT, in_hand()).await.is_err() {
                tracing::warn!(
                    queue = shared.name,
                    "what could not be handed back comes again when its visibility timeout is over"
                );
            }
        }
        shared.decider.settle().await;
        stats.summary()
    }
}
