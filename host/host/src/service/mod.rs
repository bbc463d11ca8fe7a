//! Queues served from a configuration: checked, with their policies loaded and watched, and a consumer for each.

mod depth;
pub(crate) mod descriptors;
mod gauges;
mod handler;
mod history;
mod operated;
mod queue_gauges;
mod reload;
mod served;
mod supervisor;
mod watchers;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures_util::future::join_all;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::admin::{self, AdminError, ControlSocket, Interface, Tools};
use crate::assembly::{Assembly, AssemblyError, LoadError};
use crate::config::{Config, QueueConfig, Reading};
use crate::consumer::{self, Checked, Consumer, Ready, Summary, Warning};
use crate::exporter::{Exporter, ExporterError, Recording};
use crate::handler::{Handler, HttpError};
use crate::letters::{Desk, RunsPlace};
use crate::policy::{LivePolicy, WatchError, Watcher};
use crate::queue::{Connections, Description};
use crate::record::{Observer, Recorder};
use crate::text::chain;
use crate::traces;
use backstop_decider::Decider;

use gauges::{HostMetrics, PolicyGauges, PolicySlot};
use handler::handler;
use operated::{admin_queue, control, desk};
use queue_gauges::QueueGauges;
pub use reload::{Reload, Reloaded};
pub(crate) use served::Served;
pub use supervisor::Supervisor;

/// Consumers that are ready to run.
#[derive(Debug)]
pub struct Service {
    consumers: Vec<(String, Consumer)>,
    recorder: Option<Arc<Recorder>>,
    _watcher: Watcher,
    interface: Arc<Interface>,
    desk: Arc<Desk>,
    _admin: Option<admin::Address>,
    _control: Option<ControlSocket>,
    _shadow_watchers: Vec<Watcher>,
    _depths: Option<JoinSet<()>>,
    _metrics: Option<JoinSet<()>>,
    _history: Option<JoinSet<()>>,
    supervisor: Option<Supervisor>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The sandbox, the cache directory or the decision records can't be used.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The policies' sources can't be checked for updates.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Metrics can't be served.
    #[error(transparent)]
    Metrics(#[from] ExporterError),
    /// Traces can't be sent.
    #[error(transparent)]
    Traces(#[from] backstop_traces::StartError),
    /// The admin interface can't be served.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Queues that can't be served, each with the reason.
    #[error("{}", Faults(.0))]
    Queues(Vec<(String, QueueFault)>),
}

/// Why a queue can't be served.
#[derive(Debug, thiserror::Error)]
pub enum QueueFault {
    /// Its policy can't be loaded. Queues with the same policy share the error.
    #[error(transparent)]
    Policy(#[from] Arc<LoadError>),
    /// Its HTTP handler is invalid.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The queue, its dead-letter queue or its handler can't be used.
    #[error(transparent)]
    Consumer(#[from] consumer::Fault),
}

struct Faults<'a>(&'a [(String, QueueFault)]);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (queue, fault)) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n" };
            write!(f, "{separator}queue `{queue}`: {}", chain(fault))?;
        }
        Ok(())
    }
}

impl Service {
    /// Checks everything that can be checked before the first message. Checks all queues, and reports all faults at once.
    pub async fn prepare(config: Config, connections: &Connections) -> Result<Self, StartError> {
        Self::prepare_observed(config, connections, None).await
    }

    /// As [`prepare`](Self::prepare), with an observer of all decisions.
    pub(crate) async fn prepare_observed(
        config: Config,
        connections: &Connections,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, StartError> {
        // Before anything that counts: metrics belong to the recorder that is installed when they are created.
        let exporter = match config.metrics {
            Some(address) => Some(Exporter::start(address).await?),
            None => None,
        };
        let recording = match (&config.metrics, &config.admin) {
            (Some(_), _) => Some(Recording::start()?),
            // A program that records metrics itself serves them itself.
            (None, Some(_)) => Recording::start().ok(),
            (None, None) => None,
        };
        traces::start(config.traces, "backstop")?;
        // From here on, probes learn that the host lives and is not ready.
        let interface = Arc::<Interface>::default();
        let admin = match &config.admin {
            Some(admin) => Some(admin::Address::start(admin, &config.fleet, &interface).await?),
            None => None,
        };
        if let Err(too_few) = descriptors::check(&config.queues) {
            tracing::warn!("{too_few}");
        }
        let assembly = Assembly::for_consumer(&config)?.observed_by(observer);
        let deciders: Vec<_> = config.queues.iter().map(|queue| &queue.decider).collect();
        let policies = assembly.policies(&deciders).await;
        let mut consumers = Vec::new();
        let mut faults = Vec::new();
        let mut served = Served::default();
        for (queue, policy) in config.queues.into_iter().zip(policies) {
            let name = queue.name.clone();
            match check(&queue, policy, &assembly, connections).await {
                Ok((usable, warnings)) => {
                    let added = served.add(&name, &queue.url, &usable.ready.description);
                    if let Some(fault) = added {
                        faults.push((name, fault.into()));
                        continue;
                    }
                    for warning in warnings {
                        tracing::warn!(queue = name, "{warning}");
                    }
                    consumers.push((name, consumer(queue, usable, &assembly).await));
                }
                Err(found) => {
                    faults.extend(found.faults.into_iter().map(|fault| (name.clone(), fault)));
                }
            }
        }
        if !faults.is_empty() {
            return Err(StartError::Queues(faults));
        }
        let metrics = recording.map(|recording| {
            let gauges = PolicyGauges::new(slots(&consumers).collect());
            let queues: Vec<_> = consumers.iter().map(QueueGauges::of).collect();
            let host = HostMetrics::of(env!("CARGO_PKG_VERSION"));
            recording.page(move || {
                gauges.update();
                queues.iter().for_each(QueueGauges::update);
                host.update();
            })
        });
        let desk = Arc::new(desk(&consumers, connections));
        interface.dead_letters(Arc::clone(&desk));
        interface.ready(consumers.iter().map(admin_queue).collect(), metrics.clone());
        let service = Self {
            recorder: assembly.recorder().cloned(),
            _watcher: watchers::live(&consumers)?,
            _control: control(&assembly, &interface),
            _history: admin.as_ref().map(|_| history::follow(&interface)),
            interface,
            desk,
            _admin: admin,
            _shadow_watchers: consumers.iter().filter_map(watchers::shadow).collect(),
            _depths: metrics.as_ref().map(|_| depth::follow(&consumers)),
            _metrics: exporter
                .zip(metrics)
                .map(|(exporter, page)| exporter.serve(page)),
            consumers,
            supervisor: None,
        };
        // Whoever reads that it is ready reaches it by its sockets.
        service.consumers.iter().for_each(operated::log_ready);
        Ok(service)
    }

    /// With the service manager that learns how the service is while it runs.
    pub fn supervised_by(self, supervisor: Option<Supervisor>) -> Self {
        Self { supervisor, ..self }
    }

    /// What writes the decision records, if anything does.
    pub fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.as_ref()
    }

    /// Keeps the runs there that operators start on the page.
    pub fn keep_runs(&self, place: Arc<dyn RunsPlace>) {
        self.desk.keep_runs(place);
    }

    /// Lends these means to the page.
    pub fn lend(&self, tools: Arc<dyn Tools>) {
        self.interface.lend(tools);
    }

    /// What takes over later readings of the configuration. This is the one that the host was started with.
    pub fn reload(&self, started: &Reading) -> Reload {
        let served = self.consumers.iter().map(|(name, consumer)| {
            let (controls, breaker) = (consumer.controls(), consumer.breaker());
            (name.clone(), reload::Served { controls, breaker })
        });
        Reload::new(served.collect(), started)
    }

    /// Runs every queue until `stop` is cancelled and messages in flight are finished. Returns the counts of each queue.
    pub async fn run(self, stop: CancellationToken) -> Vec<(String, Summary)> {
        self.interface.stops_with(stop.clone());
        let is_serving = AtomicBool::new(true);
        let runs = self.consumers.into_iter().map(|(name, consumer)| {
            let (stop, is_serving) = (stop.clone(), &is_serving);
            async move {
                let summary = consumer.run(stop.clone()).await;
                // Its pollers have panicked.
                if !stop.is_cancelled() {
                    is_serving.store(false, Relaxed);
                }
                (name, summary)
            }
        });
        let desk = self.desk;
        let served = async {
            // Surveys and runs end beside the messages in flight.
            let ended = async {
                stop.cancelled().await;
                desk.end().await;
            };
            let mut ended = pin!(ended);
            let mut runs = pin!(join_all(runs));
            let summaries = tokio::select! {
                summaries = &mut runs => summaries,
                () = &mut ended => runs.await,
            };
            desk.end().await;
            summaries
        };
        let summaries = match &self.supervisor {
            None => served.await,
            Some(supervisor) => tokio::select! {
                summaries = served => {
                    supervisor.ending().await;
                    summaries
                }
                never = supervisor.report(&self.interface, &stop, || is_serving.load(Relaxed)) => match never {},
            },
        };
        // Tasks that hold the recorder too may outlive this.
        if let Some(recorder) = self.recorder
            && let Err(error) = spawn_blocking(move || recorder.close()).await
        {
            tracing::error!(%error, "the last decision records may be lost");
        }
        traces::end().await;
        summaries
    }
}

/// What the checks of one queue found.
pub(crate) struct Examined {
    pub(crate) faults: Vec<QueueFault>,
    pub(crate) warnings: Vec<Warning>,
    /// Its policy, if it can be loaded.
    pub(crate) policy: Option<Arc<LivePolicy>>,
    /// Its attributes, if they can be read.
    pub(crate) description: Option<Description>,
    /// Those of its dead-letter queues.
    pub(crate) dead_letters: Vec<Description>,
}

/// Checks one queue as [`Service::prepare`] does.
pub(crate) async fn examine(
    queue: &QueueConfig,
    assembly: &Assembly,
    connections: &Connections,
) -> Examined {
    let policy = assembly.policy(&queue.decider).await.map_err(Arc::new);
    match check(queue, policy, assembly, connections).await {
        Ok((usable, warnings)) => Examined {
            faults: Vec::new(),
            warnings,
            policy: Some(Arc::clone(usable.decider.policy())),
            dead_letters: usable.ready.all_dead_letters(),
            description: Some(usable.ready.description),
        },
        Err(found) => *found,
    }
}

/// A queue that passed all checks.
struct Usable {
    ready: Ready,
    handler: Arc<dyn Handler>,
    decider: Decider,
}

/// Checks whether a queue, its dead-letter queue, its handler and its policy exist and match each other. Returns all that was found if there is a fault.
async fn check(
    queue: &QueueConfig,
    policy: Result<Arc<LivePolicy>, Arc<LoadError>>,
    assembly: &Assembly,
    connections: &Connections,
) -> Result<(Usable, Vec<Warning>), Box<Examined>> {
    let mut faults = Vec::new();
    let policy = policy.map_err(|error| faults.push(error.into())).ok();
    let handler = handler(queue, connections).await;
    let handler = handler.map_err(|error| faults.push(error)).ok();
    let mut checked = Checked::of(
        connections,
        &queue.url,
        &queue.dead_letter_queues,
        handler.as_deref(),
        &queue.options,
    )
    .await;
    let decider = policy.map(|policy| assembly.decider(&queue.name, &queue.decider, policy));
    if let Some(decider) = &decider {
        checked.with_policy(decider, &queue.decider.bounds);
    }
    let (ready, found, warnings) = checked.parts();
    faults.extend(found.into_iter().map(QueueFault::from));
    match (ready, handler, decider) {
        (Some(ready), Some(handler), Some(decider)) if faults.is_empty() => {
            let usable = Usable {
                ready,
                handler,
                decider,
            };
            Ok((usable, warnings))
        }
        (ready, _, decider) => Err(Box::new(Examined {
            faults,
            warnings,
            policy: decider.map(|decider| Arc::clone(decider.policy())),
            dead_letters: ready
                .as_ref()
                .map(Ready::all_dead_letters)
                .unwrap_or_default(),
            description: ready.map(|ready| ready.description),
        })),
    }
}

/// The consumer of a queue, with its shadow.
async fn consumer(queue: QueueConfig, usable: Usable, assembly: &Assembly) -> Consumer {
    let Usable {
        ready,
        handler,
        decider,
    } = usable;
    let shadow = assembly.shadow(&queue.name, &queue.decider).await;
    let decider = decider.shadowed_by(shadow);
    let folder = assembly.store().map(|store| store.folder().to_owned());
    Consumer::new(queue.name, ready, handler, decider, queue.options).with_folder(folder)
}

/// The live policies and the shadows of the queues.
fn slots(consumers: &[(String, Consumer)]) -> impl Iterator<Item = PolicySlot> {
    consumers.iter().flat_map(|(queue, consumer)| {
        let slot = |role, policy: &Arc<LivePolicy>| PolicySlot {
            queue: queue.clone(),
            role,
            policy: Arc::clone(policy),
        };
        let decider = consumer.decider();
        let shadow = decider.shadow();
        std::iter::once(slot("live", decider.policy()))
            .chain(shadow.map(|shadow| slot("shadow", shadow.policy())))
    })
}
