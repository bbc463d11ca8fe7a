//! A configuration put to work: its policies loaded and watched, its queues checked, a consumer for each.

mod gauges;
mod loaded;

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, HandlerConfig, QueueConfig};
use crate::consumer::{self, Checked, Consumer, Summary, Warning};
use crate::control::Control;
use crate::decider::Decider;
use crate::exporter::{Exporter, ExporterError};
use crate::handler::{Exec, Handler, Http, HttpError, Lambda};
use crate::policy::{
    Catalog, Compiled, LivePolicy, PolicyError, Reload, Sandbox, SandboxError, StoreError,
    WatchError, Watcher,
};
use crate::queue::Connections;
use crate::record::{Observer, RecordError, Recorder};
use crate::shadow::{self, Shadow};
use crate::telemetry;
use crate::text::chain;
use backstop_versions::scenario::ScenarioError;

use gauges::{PolicyGauges, PolicySlot};
use loaded::Loaded;

pub(crate) use loaded::{blocking, check};

/// Consumers that are ready to run.
#[derive(Debug)]
pub struct Service {
    consumers: Vec<(String, Consumer)>,
    _watcher: Watcher,
    _control: Option<Control>,
    _shadow_watchers: Vec<Watcher>,
    _metrics: Option<JoinSet<()>>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No engine for policies on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Records can't be written.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Nothing can look for new versions.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The folder for what is kept of policies can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Metrics can't be served.
    #[error(transparent)]
    Metrics(#[from] ExporterError),
    /// Queues that are not ready, each with why.
    #[error("{}", Faults(.0))]
    Queues(Vec<(String, QueueFault)>),
}

/// Why one queue is not ready.
#[derive(Debug, thiserror::Error)]
pub enum QueueFault {
    /// Its policy is refused.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The scenarios that its policy has to pass can't be used.
    #[error(transparent)]
    Scenarios(#[from] ScenarioError),
    /// Its handler makes no sense.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// It, its dead-letter queue or its handler can't be used.
    #[error(transparent)]
    Consumer(#[from] consumer::Fault),
}

struct Faults<'a>(&'a [(String, QueueFault)]);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (queue, fault)) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n" };
            write!(f, "{separator}queue `{queue}`: {fault}")?;
            let causes =
                std::iter::successors(std::error::Error::source(fault), |cause| cause.source());
            for cause in causes {
                write!(f, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl Service {
    /// Checks everything that can be checked before the first message. All queues are checked, and everything that is wrong is reported at once.
    pub async fn prepare(config: Config, connections: &Connections) -> Result<Self, StartError> {
        // First of all: what is counted by is made with what keeps the counts.
        let exporter = match config.metrics {
            Some(address) => Some(Exporter::start(address).await?),
            None => None,
        };
        let sandbox = Sandbox::new(config.limits)?;
        let endpoint = config.endpoint_url.clone();
        let catalog = config
            .policies
            .catalog(sandbox, Compiled::default(), endpoint)?;
        let shadows = config.queues.iter().any(|queue| queue.shadow.is_some());
        let shadows = shadows.then(|| shadow::catalog(&catalog, config.limits));
        let shadows = shadows.transpose()?;
        let recorder = config.decisions.as_ref().map(Recorder::open).transpose()?;
        let mut policies = Loaded::new(catalog.clone());
        policies.load_all(&config.queues).await;
        let mut by_queue = Vec::new();
        let mut consumers = Vec::new();
        let mut faults = Vec::new();
        for queue in config.queues {
            let name = queue.name.clone();
            match prepare(
                queue,
                &mut policies,
                shadows.as_ref(),
                recorder.as_ref(),
                connections,
            )
            .await
            {
                Ok(prepared) => {
                    for warning in prepared.warnings {
                        tracing::warn!(queue = name, "{warning}");
                    }
                    by_queue.push((name.clone(), prepared.policy));
                    consumers.push((name, prepared.consumer));
                }
                Err(refused) => {
                    let of_queue = |fault| (name.clone(), fault);
                    faults.extend(refused.faults.into_iter().map(of_queue));
                }
            }
        }
        if !faults.is_empty() {
            return Err(StartError::Queues(faults));
        }
        Ok(Self {
            _watcher: Watcher::start(policies.all(), |policy, reload| {
                tell(Role::Live, policy, reload);
            })?,
            _control: control(&catalog, by_queue),
            _shadow_watchers: consumers.iter().filter_map(watch_shadow).collect(),
            _metrics: exporter.map(|exporter| {
                let gauges = PolicyGauges::new(slots(&consumers).collect());
                exporter.serve(move || gauges.update())
            }),
            consumers,
        })
    }

    /// Runs every queue until `stop` is cancelled and what is in hand is finished; the counts of each.
    pub async fn run(self, stop: CancellationToken) -> Vec<(String, Summary)> {
        let runs = self.consumers.into_iter().map(|(name, consumer)| {
            let stop = stop.clone();
            async move { (name, consumer.run(stop).await) }
        });
        join_all(runs).await
    }
}

/// The socket on which the host is asked; without one, it works as well.
fn control(catalog: &Catalog, policies: Vec<(String, Arc<LivePolicy>)>) -> Option<Control> {
    let store = catalog.store.as_ref()?;
    Control::listen(store, policies)
        .map_err(|error| {
            tracing::warn!(folder = %store.folder().display(), %error, "no control socket: `backstop policy status` and `rollback` do not find this host");
        })
        .ok()
}

/// Checks one queue as [`Service::prepare`] does: what keeps it from being served, and what will not work out as expected.
pub async fn examine(
    queue: QueueConfig,
    catalog: &Catalog,
    connections: &Connections,
) -> (Vec<QueueFault>, Vec<Warning>) {
    let mut policies = Loaded::new(catalog.clone());
    match prepare(queue, &mut policies, None, None, connections).await {
        Ok(prepared) => (Vec::new(), prepared.warnings),
        Err(refused) => (refused.faults, refused.warnings),
    }
}

/// A queue that is ready.
struct Prepared {
    consumer: Consumer,
    policy: Arc<LivePolicy>,
    warnings: Vec<Warning>,
}

/// A queue that is not ready: everything that is wrong with it.
struct Refused {
    faults: Vec<QueueFault>,
    warnings: Vec<Warning>,
}

async fn prepare(
    queue: QueueConfig,
    policies: &mut Loaded,
    shadows: Option<&Catalog>,
    recorder: Option<&Arc<Recorder>>,
    connections: &Connections,
) -> Result<Prepared, Refused> {
    let mut faults = Vec::new();
    let policy = policies.get((queue.policy, queue.scenarios)).await;
    let policy = policy.map_err(|fault| faults.push(fault)).ok();
    let handler = handler(&queue.handler, &queue.url, connections).await;
    let handler = handler.map_err(|fault| faults.push(fault)).ok();
    let mut checked = Checked::of(
        connections,
        &queue.url,
        queue.dead_letter_queue.as_deref(),
        handler.as_deref(),
        &queue.options,
    )
    .await;
    let decider = policy
        .as_ref()
        .map(|policy| Decider::new(&queue.name, Arc::clone(policy), queue.bounds));
    if let Some(decider) = &decider {
        checked.with_policy(decider, &queue.bounds);
    }
    let (ready, found, warnings) = checked.parts();
    faults.extend(found.into_iter().map(QueueFault::from));
    let (Some(policy), Some(mut decider), Some(handler), Some(ready), true) =
        (policy, decider, handler, ready, faults.is_empty())
    else {
        return Err(Refused { faults, warnings });
    };
    let shadow = match queue.shadow.zip(shadows.cloned()) {
        Some((spec, catalog)) => {
            let name = queue.name.clone();
            Some(blocking(move || Shadow::load(&name, catalog, spec)).await)
        }
        None => None,
    };
    decider = decider.shadowed_by(shadow);
    if let Some(recorder) = recorder {
        decider = decider.observed_by(Arc::clone(recorder) as Arc<dyn Observer>);
    }
    tracing::info!(
        queue = queue.name,
        url = queue.url,
        policy = policy.current().title(),
        dead_letters = ready
            .dead_letters
            .as_ref()
            .map_or("none", |(dead_letters, _)| dead_letters.url()),
        "ready"
    );
    let consumer = Consumer::new(queue.name, ready, handler, decider, queue.options);
    Ok(Prepared {
        consumer,
        policy,
        warnings,
    })
}

/// What does the work of the queue at `url`.
async fn handler(
    handler: &HandlerConfig,
    url: &str,
    connections: &Connections,
) -> Result<Arc<dyn Handler>, QueueFault> {
    Ok(match handler {
        HandlerConfig::Http { url: to, proxy } => Arc::new(Http::new(to, proxy.as_deref(), url)?),
        HandlerConfig::Exec(program, arguments) => Arc::new(Exec::new(program, arguments.clone())),
        HandlerConfig::Lambda(function) => Arc::new(Lambda::new(connections.sdk().await, function)),
        HandlerConfig::Function(function) => Arc::clone(&function.0),
    })
}

/// The policies of the queues.
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

/// Watches the files of a queue's shadow, on a thread apart from the live policies', whose new versions wait for no other to be compiled. A shadow that can't be watched stays as it is.
fn watch_shadow((queue, consumer): &(String, Consumer)) -> Option<Watcher> {
    let shadow = consumer.decider().shadow()?;
    Watcher::start(vec![Arc::clone(shadow.policy())], |policy, reload| {
        tell(Role::Shadow, policy, reload);
    })
    .inspect_err(|error| {
        tracing::error!(
            queue,
            "new versions of the shadow are not noticed: {}",
            chain(error)
        );
    })
    .ok()
}

/// What a policy is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It decides.
    Live,
    /// It is asked beside the one that does.
    Shadow,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "policy",
            Self::Shadow => "shadow",
        })
    }
}

/// Says once what became of a look for a new version.
pub(crate) fn tell(what: Role, policy: &LivePolicy, reload: Reload) {
    match reload {
        Reload::Swapped { from, to } => {
            telemetry::swapped(&policy.spec().title());
            let does = match what {
                Role::Live => "decides",
                Role::Shadow => "is asked",
            };
            tracing::info!(from, to, "a new version of the {what} {does} from now on");
        }
        Reload::Refused { kept, cause } => {
            telemetry::refused(&policy.spec().title());
            let cause = chain(&cause);
            tracing::error!(kept, "a new version of a {what} is not taken: {cause}");
        }
        Reload::SourceUnreachable { kept, cause } => {
            let cause = chain(&cause);
            tracing::error!(
                kept,
                "looking for new versions of a {what} fails, and is tried again: {cause}"
            );
        }
        Reload::SourceRecovered { kept } => {
            tracing::info!(kept, "the source of the {what} can be read again");
        }
        Reload::Unchanged => tracing::debug!(policy = policy.current().title(), "no new version"),
    }
}
