//! The standalone consumer of one queue.
//!
//! A message moves forward through these modules: `receive` polls the queue as far as the `budget` allows, `workers` take lanes one after another, `lane` handles the messages of one in their order, `attempt` runs the handler, the [`Decider`] decides about a failure, and `apply` has it [settled](backstop_settle::Settler). `held` sends refused dead letters again, and `requests` makes the last requests about a message. `heartbeat` keeps messages invisible meanwhile, `receipts` says which receive of a message counts, and `gate` stops all of it while the worker is unavailable, `controls` while an operator wants it. The `breaker` says whether an attempt is worthwhile, `controls::each` whether its key has a turn, and `held_back` keeps what is `not_now`.

mod apply;
mod attempt;
mod behind;
mod breaker;
mod budget;
mod controls;
mod copies;
mod depths;
mod due;
mod gate;
mod heartbeat;
mod held;
mod held_back;
mod history;
mod kept_waiting;
mod lane;
mod measures;
mod not_now;
mod polling;
mod previous;
mod receipts;
mod receive;
mod recent;
mod requests;
mod returned;
mod spans;
mod startup;
mod stats;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handler::Handler;
use crate::hold::{HoldSettings, Holds};
use crate::queue::{Callers, Linger, Queue, Requests, VisibilityTimeout};
use crate::telemetry;
use crate::waiting::{Grouping, Waiting};
use backstop_core::clock;
use backstop_decider::{Decider, Events};
use backstop_files::FileWork;
use backstop_settle::{Settler, known};
use copies::Copies;
use gate::Gate;
use held::Held;
use history::History;
use kept_waiting::KeptWaiting;
use previous::Previous;
use receipts::Receipts;
use receive::{Pollers, SHORTEST_POLL};
use returned::Files;

pub use crate::config::Options;
pub(crate) use crate::config::longest_linger;
pub(crate) use breaker::Breaker;
pub use breaker::Down;
pub(crate) use budget::Budget;
pub(crate) use controls::{Controls, KeptPause, NewLimits};
pub use controls::{EachServing, LimitedKey, Pause, Serving};
pub(crate) use polling::Polling;
pub(crate) use startup::{Checked, fault, grace_warning};
pub use startup::{Fault, Faults, Ready, Warning, check};
pub use stats::{Stats, Summary};

/// How long a shutdown waits after the grace period until unfinished messages are returned to the queue. With the default grace period that is 29 s in total: containers are killed after 30 s.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);

/// How often a message that waits for its turn looks whether it may still begin.
const INTERRUPTION_CHECK: Duration = Duration::from_millis(250);

/// The consumer of one queue, checked and ready to run.
pub struct Consumer {
    name: String,
    ready: Ready,
    handler: Arc<dyn Handler>,
    decider: Decider,
    options: Options,
    controls: Arc<Controls>,
    breaker: Arc<Breaker>,
    stats: Arc<Stats>,
    waiting: Arc<Waiting>,
    folder: Option<PathBuf>,
    files: FileWork,
}

backstop_core::shown!(Consumer, consumer => name = consumer.name, options = consumer.options);

/// The state that all tasks of a running consumer share.
struct Shared {
    name: String,
    queue: Arc<dyn Queue>,
    fifo: bool,
    /// The lanes of a FIFO queue.
    callers: Option<Arc<Callers>>,
    visibility: VisibilityTimeout,
    handler: Arc<dyn Handler>,
    gate: Arc<Gate>,
    controls: Arc<Controls>,
    breaker: Arc<Breaker>,
    decider: Decider,
    options: Options,
    settler: Settler,
    history: History,
    previous: Previous,
    copies: Copies,
    receipts: Receipts,
    held: Held,
    waiting: Arc<Waiting>,
    stats: Arc<Stats>,
    /// No new attempts.
    stop: CancellationToken,
    /// The last poll has ended.
    received_all: CancellationToken,
    /// Attempts under way are interrupted.
    abort: CancellationToken,
}

impl Shared {
    /// Returns when no attempt may begin any more.
    async fn interrupted(&self) {
        while !self.gate.is_closed() && !self.controls.is_paused() {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = sleep(INTERRUPTION_CHECK) => {}
            }
        }
    }
}

impl Consumer {
    /// A consumer of a queue that [`check`] has checked.
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
        let stats = Arc::new(Stats::of(
            &name,
            ready.class_dead_letters.keys().cloned(),
            shadow,
        ));
        let (queue, description) = (&ready.queue, &ready.description);
        let budget = Budget::new(options.max_in_flight, options.max_bytes_in_flight);
        let controls = Controls::new(&name, budget, &options);
        controls.heard_by(decider.events());
        let waiting = Waiting::of(&name, queue, description, &decider, &stats.requests);
        if let Some(by) = options.group_by.clone() {
            waiting.group_by(Grouping::new(by.clone(), move |message| by.key(message)));
        }
        Self {
            controls,
            breaker: Arc::new(Breaker::new(&name, options.breaker.as_ref())),
            waiting,
            stats,
            name,
            ready,
            handler,
            decider,
            options,
            folder: None,
            files: FileWork::default(),
        }
    }

    /// With a folder that outlives the process: there the next consumer of the queue finds which receives were no attempts, what waits, and whether the queue is paused.
    pub fn with_folder(self, folder: Option<PathBuf>) -> Self {
        if let Some(folder) = &folder {
            let paused = folder.join("paused");
            let arn = &self.ready.description.arn;
            self.controls.kept_in(KeptPause::of(&paused, arn));
        }
        Self { folder, ..self }
    }

    /// Reads and writes the files of its folder by the task that needs them, so that nothing depends on how threads take turns: for simulations.
    pub fn in_place(mut self) -> Self {
        self.files = FileWork::InPlace;
        self
    }

    /// Its decider.
    pub(crate) fn decider(&self) -> &Decider {
        &self.decider
    }

    /// Its messages that wait, readable while it runs.
    pub fn waiting(&self) -> Arc<Waiting> {
        Arc::clone(&self.waiting)
    }

    /// What an operator may change while it runs.
    pub(crate) fn controls(&self) -> Arc<Controls> {
        Arc::clone(&self.controls)
    }

    /// What it does not attempt for now, readable while it runs.
    pub(crate) fn breaker(&self) -> Arc<Breaker> {
        Arc::clone(&self.breaker)
    }

    /// Its queue and its dead-letter queues, with the attributes that they had at the start.
    pub(crate) const fn ready(&self) -> &Ready {
        &self.ready
    }

    /// How often the depths of these queues are to be read, if they are.
    pub(crate) fn depth_poll(&self) -> Option<Duration> {
        Some(self.options.depth_poll).filter(|pace| !pace.is_zero())
    }

    /// Its counts, readable while it runs.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Receives and handles messages until `stop` is cancelled. Then finishes the messages in flight within the grace period, returns the others to the queue, and ends.
    pub async fn run(self, stop: CancellationToken) -> Summary {
        let Self {
            name,
            ready,
            handler,
            decider,
            options,
            controls,
            breaker,
            stats,
            waiting,
            folder,
            files,
        } = self;
        let arn = &ready.description.arn;
        let kept = folder
            .as_ref()
            .filter(|_| !arn.starts_with("local:"))
            .and_then(|folder| KeptWaiting::of(folder.join("waiting"), arn, &waiting, files));
        if let Some(kept) = &kept {
            kept.take_over().await;
        }
        let returned = folder.map(|folder| Files::of(&folder.join("returned"), arn));
        let stop = stop.child_token();
        let abort = CancellationToken::new();
        let visibility = options
            .visibility_timeout
            .unwrap_or(ready.description.visibility_timeout)
            .max(VisibilityTimeout::from_seconds(1));
        let linger = options.linger.min(longest_linger(visibility));
        let holds = Holds::start(
            HoldSettings {
                mode: options.hold,
                keys: ready.envelope_keys.clone(),
                max_age: decider.max_age(),
            },
            &name,
            &ready.queue,
            &ready.description,
            linger,
            &stats.requests,
        );
        let fifo = ready.description.fifo;
        let callers = fifo.then(Arc::default);
        let linger = Linger::of(callers.clone(), linger);
        let settler = settler(&ready, &linger, &stats.requests, holds, decider.events());
        let gauge = telemetry::Queue::named(&name).gate_closed();
        let gate = Gate::new(&name, options.max_in_flight, stats.polling(), gauge, &stop);
        if let Some(error) = &ready.unavailable {
            gate.close(error, &handler);
        }
        let shared = Arc::new(Shared {
            held: Held::of(&name),
            waiting,
            name,
            visibility,
            fifo,
            callers,
            queue: ready.queue,
            handler,
            gate,
            controls,
            breaker,
            decider,
            settler,
            history: History::of(fifo).kept_in(returned),
            previous: Previous::default(),
            copies: Copies::default(),
            receipts: Receipts::default(),
            stats: Arc::clone(&stats),
            stop: stop.clone(),
            received_all: CancellationToken::new(),
            abort: abort.clone(),
            options,
        });
        let bringing = Arc::clone(&shared);
        tokio::spawn(async move { held_back::bring_back(&bringing).await });
        let keeping = kept
            .clone()
            .map(|kept| tokio::spawn(kept.keep(stop.clone())));
        // Before the first poll: it may start in the middle of a window.
        shared.controls.look_at_windows(clock::now());
        let following = Arc::clone(&shared);
        tokio::spawn(async move {
            following
                .stop
                .run_until_cancelled(following.controls.follow_windows())
                .await
        });
        let lanes = TaskTracker::new();
        // The grace period starts with the stop, for the last poll and for messages in flight.
        let grace_is_over = async {
            stop.cancelled().await;
            sleep(shared.controls.grace()).await;
        };
        let drained = || async {
            lanes.close();
            lanes.wait().await;
            shared.held.released().await;
        };
        let ended = async {
            Pollers::start(&shared, &lanes).ended().await;
            shared.received_all.cancel();
            drained().await;
        };
        tokio::pin!(ended);
        let ended_in_time = tokio::select! {
           biased;
            () = &mut ended => true,
            () = grace_is_over => false,
        };
        if !ended_in_time {
            tracing::warn!(
                queue = shared.name,
                "the grace period is over: messages in flight are returned to the queue"
            );
            shared.abort.cancel();
            let returned = async {
                // A poll may take a moment longer than a short grace period, and would receive what is returned.
                if timeout(SHORTEST_POLL, &mut ended).await.is_err() {
                    shared.received_all.cancel();
                    drained().await;
                }
            };
            if timeout(SHUTDOWN_TIMEOUT, returned).await.is_err() {
                tracing::warn!(
                    queue = shared.name,
                    "some messages could not be returned: they are delivered again when their visibility timeout ends"
                );
            }
        }
        shared.history.keep();
        shared.decider.settle().await;
        if let (Some(kept), Some(keeping)) = (kept, keeping) {
            let _ = keeping.await;
            kept.end().await;
        }
        stats.summary()
    }
}

/// Settles the messages of a queue that has been checked, and so have its dead-letter queues.
fn settler(
    ready: &Ready,
    linger: &Linger,
    requests: &Arc<Requests>,
    holds: Holds,
    events: &Events,
) -> Settler {
    let classes = ready.class_dead_letters.iter();
    Settler::start(
        (&ready.queue, ready.description.arn.clone()),
        linger.clone(),
        requests,
        holds,
        known(ready.dead_letters.clone()),
        classes.map(|(class, queue)| (class.clone(), known(Some(queue.clone())))),
    )
    .heard_by(events)
}
