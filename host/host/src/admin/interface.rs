//! What the routes of the admin interface reach: the queues of the host, from the moment that they are ready.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::consumer::{Breaker, Consumer, Controls, Down, Polling, Serving, Stats};
use crate::exporter::Page;
use crate::letters::Desk;
use crate::policy::LivePolicy;
use crate::waiting::Waiting;
use backstop_decider::shadow::Shadow;

use super::answer::Refused;
use super::audit::Audit;
use super::history::History;
use super::tools::Tools;
use super::what_if::WhatIfs;

/// The admin interface of one host. Until its queues are ready, it answers only whether the host lives.
#[derive(Debug)]
pub struct Interface {
    ready: OnceLock<Ready>,
    stop: OnceLock<CancellationToken>,
    desk: OnceLock<Arc<Desk>>,
    tools: OnceLock<Arc<dyn Tools>>,
    what_ifs: Arc<WhatIfs>,
    stories: Arc<Semaphore>,
    actions: Arc<Semaphore>,
    previews: Arc<Semaphore>,
    /// Tells it from the interfaces of all other hosts.
    pub(super) id: String,
    pub(super) audit: Audit,
    history: History,
}

/// How long a host goes on that was told to stop.
const ANSWERED: Duration = Duration::from_millis(200);

/// The most actions at the same time. An action goes on when its client leaves, so the bound on connections does not bound actions.
const ACTIONS: usize = 8;

/// The most counts of what an action would do at the same time. Who may only look asks for them, too, so they take no place of an action.
const PREVIEWS: usize = 4;

#[derive(Debug)]
struct Ready {
    queues: Vec<AdminQueue>,
    metrics: Option<Arc<Page>>,
}

/// A queue, as far as the admin interface reaches it.
#[derive(Debug, Clone)]
pub struct AdminQueue {
    pub(crate) name: String,
    pub(crate) policy: Arc<LivePolicy>,
    pub(crate) polling: Arc<Polling>,
    pub(crate) controls: Option<Arc<Controls>>,
    breaker: Option<Arc<Breaker>>,
    pub(crate) shadow: Option<Arc<Shadow>>,
    pub(crate) stats: Option<Arc<Stats>>,
    pub(crate) waiting: Option<Arc<Waiting>>,
}

impl AdminQueue {
    /// A queue with this policy that is not polled yet.
    pub fn new(name: impl Into<String>, policy: Arc<LivePolicy>) -> Self {
        Self {
            name: name.into(),
            policy,
            polling: Arc::default(),
            controls: None,
            breaker: None,
            shadow: None,
            stats: None,
            waiting: None,
        }
    }

    /// The queue that this consumer serves.
    pub fn of(name: impl Into<String>, consumer: &Consumer) -> Self {
        let policy = Arc::clone(consumer.decider().policy());
        Self::new(name, policy)
            .counted(consumer.stats())
            .controlled(consumer.controls(), consumer.breaker())
            .shadowed_by(consumer.decider().shadow().cloned())
            .remembering(consumer.waiting())
    }

    /// With what the host has done with its messages, and how it is polled.
    pub(crate) fn counted(self, stats: Arc<Stats>) -> Self {
        Self {
            polling: Arc::clone(stats.polling()),
            stats: Some(stats),
            ..self
        }
    }

    /// With what an operator may change about it, and what it does not attempt for now.
    pub(crate) fn controlled(self, controls: Arc<Controls>, breaker: Arc<Breaker>) -> Self {
        Self {
            controls: Some(controls),
            breaker: Some(breaker),
            ..self
        }
    }

    /// With the policy that is compared with its own.
    pub(crate) fn shadowed_by(self, shadow: Option<Arc<Shadow>>) -> Self {
        Self { shadow, ..self }
    }

    /// What it does not attempt for now, because that is down.
    pub(crate) fn down(&self) -> Vec<Down> {
        let breaker = self.breaker.as_ref();
        breaker.map_or_else(Vec::new, |breaker| breaker.down())
    }

    /// How it is served, if it is.
    pub(crate) fn serving(&self) -> Option<Serving> {
        let controls = self.controls.as_ref()?;
        Some(controls.serving(self.polling.problem()))
    }

    /// Why nothing is received from it: it is paused, or its worker is unavailable.
    pub(crate) fn not_polled(&self) -> Option<String> {
        let paused = self.controls.as_ref().and_then(|it| it.pause_text());
        paused.or_else(|| self.polling.problem())
    }

    /// How many of its messages the host has in hand.
    pub(crate) fn in_hand(&self) -> u64 {
        let in_flight = self.serving().map_or(0, |serving| serving.in_flight);
        u64::try_from(in_flight).unwrap_or(u64::MAX)
    }

    /// With what waits in it.
    pub(crate) fn remembering(self, waiting: Arc<Waiting>) -> Self {
        Self {
            waiting: Some(waiting),
            ..self
        }
    }
}

impl Default for Interface {
    fn default() -> Self {
        Self {
            ready: OnceLock::new(),
            stop: OnceLock::new(),
            desk: OnceLock::new(),
            tools: OnceLock::new(),
            what_ifs: Arc::default(),
            stories: Arc::new(Semaphore::new(1)),
            actions: Arc::new(Semaphore::new(ACTIONS)),
            previews: Arc::new(Semaphore::new(PREVIEWS)),
            id: format!("{:016x}", rand::random::<u64>()),
            audit: Audit::default(),
            history: History::default(),
        }
    }
}

impl Interface {
    /// The interface of a host with these queues.
    pub fn of(queues: Vec<AdminQueue>) -> Arc<Self> {
        let interface = Self::default();
        interface.ready(queues, None);
        Arc::new(interface)
    }

    /// The queues are checked, and about to be polled.
    pub(crate) fn ready(&self, queues: Vec<AdminQueue>, metrics: Option<Arc<Page>>) {
        let _ = self.ready.set(Ready { queues, metrics });
    }

    /// What the host does about dead letters, from now on.
    pub(crate) fn dead_letters(&self, desk: Arc<Desk>) {
        let _ = self.desk.set(desk);
    }

    /// What the host does about dead letters.
    pub(crate) fn desk(&self) -> Result<&Arc<Desk>, Refused> {
        self.desk.get().ok_or_else(starting)
    }

    /// The host does this by means of the program that runs it.
    pub(crate) fn lend(&self, tools: Arc<dyn Tools>) {
        let _ = self.tools.set(tools);
    }

    /// What the program lends to the host.
    pub(crate) fn tools(&self) -> Result<&Arc<dyn Tools>, Refused> {
        self.tools.get().ok_or_else(|| {
            Refused::not_found(
                "the program that runs this host has no means for it: `backstop run` has",
            )
        })
    }

    /// What another policy would do.
    pub(super) fn what_ifs(&self) -> &Arc<WhatIfs> {
        &self.what_ifs
    }

    /// The turn to read the life of a message, to be kept until it is read.
    pub(super) async fn story_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.stories).acquire_owned().await.ok()
    }

    /// What the queues did.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The host stops when this token is cancelled.
    pub(crate) fn stops_with(&self, stop: CancellationToken) {
        let _ = self.stop.set(stop);
    }

    /// The permit of one action, to be kept until it ends.
    pub(super) fn action(&self) -> Result<OwnedSemaphorePermit, Refused> {
        let permit = Arc::clone(&self.actions).try_acquire_owned();
        permit.map_err(|_| {
            Refused::unavailable(format!("{ACTIONS} actions are under way: try again later"))
        })
    }

    /// The permit of one count of what an action would do.
    pub(super) fn preview(&self) -> Result<OwnedSemaphorePermit, Refused> {
        let permit = Arc::clone(&self.previews).try_acquire_owned();
        permit.map_err(|_| {
            Refused::unavailable(format!(
                "{PREVIEWS} previews are under way: try again later"
            ))
        })
    }

    /// Stops the host in a moment, when the answer to who has asked for it is sent: an idle host ends at once. Returns whether it can be stopped.
    pub(crate) fn begin_stop(&self) -> bool {
        let Some(stop) = self.stop.get().cloned() else {
            return false;
        };
        tokio::spawn(async move {
            sleep(ANSWERED).await;
            stop.cancel();
        });
        true
    }

    /// Whether the host has begun to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// The queues, once they are checked.
    pub(crate) fn queues(&self) -> Result<&[AdminQueue], Refused> {
        let ready = self.ready.get();
        ready
            .map(|ready| ready.queues.as_slice())
            .ok_or_else(starting)
    }

    /// The queue with this name.
    pub(crate) fn queue(&self, name: &str) -> Result<&AdminQueue, Refused> {
        let mut queues = self.queues()?.iter();
        queues
            .find(|queue| queue.name == name)
            .ok_or_else(|| Refused::not_found(format!("this host does not serve a queue `{name}`")))
    }

    /// The metrics, if they are recorded.
    pub(crate) fn metrics(&self) -> Result<&Arc<Page>, Refused> {
        let ready = self.ready.get().ok_or_else(starting)?;
        let metrics = ready.metrics.as_ref();
        metrics.ok_or_else(|| {
            Refused::not_found("metrics are not recorded: configure `metrics` or `admin`")
        })
    }
}

fn starting() -> Refused {
    Refused::unavailable("the host is starting: its queues are being checked")
}
