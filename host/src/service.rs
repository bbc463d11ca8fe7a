//! A configuration put to work: its policies loaded and watched, its queues checked, a consumer for each.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, HandlerConfig, QueueConfig};
use crate::consumer::{self, Consumer, Summary, Warning};
use crate::decider::Decider;
use crate::exporter::{Exporter, ExporterError};
use crate::handler::{Exec, Handler, Http, HttpError, Lambda};
use crate::policy::{LivePolicy, PolicyError, PolicySpec, Reload, Sandbox, WatchError, Watcher};
use crate::queue::Connections;
use crate::record::{Observer, RecordError, Recorder};
use crate::shadow::{self, Shadow};
use crate::telemetry::{self, Place, Versions};
use crate::text::chain;

/// Consumers that are ready to run.
#[derive(Debug)]
pub struct Service {
    consumers: Vec<(String, Consumer)>,
    _watcher: Watcher,
    _shadow_watchers: Vec<Watcher>,
    _metrics: Option<JoinSet<()>>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No engine for policies on this machine.
    #[error("can't set up the sandbox: {0}")]
    Sandbox(String),
    /// Records can't be written.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Folders can't be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
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
    /// Checks everything that can be checked before the first message. All queues are checked, and all that is wrong is told at once.
    pub async fn prepare(config: Config, connections: &Connections) -> Result<Self, StartError> {
        // First of all: what is counted by is made with what keeps the counts.
        let exporter = match config.metrics {
            Some(address) => Some(Exporter::start(address).await?),
            None => None,
        };
        let refused = |error| StartError::Sandbox(format!("{error:#}"));
        let sandbox = Sandbox::new(config.limits).map_err(refused)?;
        let shadows = config.queues.iter().any(|queue| queue.shadow.is_some());
        let shadows = shadows.then(|| shadow::sandbox(config.limits));
        let shadows = shadows.transpose().map_err(refused)?;
        let recorder = config.decisions.as_ref().map(Recorder::open).transpose()?;
        let mut policies: Vec<(PolicySpec, Arc<LivePolicy>)> = Vec::new();
        let mut consumers = Vec::new();
        let mut faults = Vec::new();
        for queue in config.queues {
            let name = queue.name.clone();
            match prepare(
                queue,
                &sandbox,
                shadows.as_ref(),
                &mut policies,
                recorder.as_ref(),
                connections,
            )
            .await
            {
                Ok((consumer, warnings)) => {
                    for warning in warnings {
                        tracing::warn!(queue = name, "{warning}");
                    }
                    consumers.push((name, consumer));
                }
                Err(fault) => faults.push((name, fault)),
            }
        }
        if !faults.is_empty() {
            return Err(StartError::Queues(faults));
        }
        let policies = policies.into_iter().map(|(_, policy)| policy).collect();
        Ok(Self {
            _watcher: Watcher::start(policies, tell)?,
            _shadow_watchers: consumers.iter().filter_map(watch_shadow).collect(),
            _metrics: exporter
                .map(|exporter| exporter.serve(Versions::of(places(&consumers).collect()))),
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

/// Checks one queue as [`Service::prepare`] does; what will not work out as expected.
pub async fn examine(
    queue: QueueConfig,
    sandbox: &Sandbox,
    connections: &Connections,
) -> Result<Vec<Warning>, QueueFault> {
    let prepared = prepare(queue, sandbox, None, &mut Vec::new(), None, connections).await?;
    Ok(prepared.1)
}

async fn prepare(
    queue: QueueConfig,
    sandbox: &Sandbox,
    shadows: Option<&Sandbox>,
    policies: &mut Vec<(PolicySpec, Arc<LivePolicy>)>,
    recorder: Option<&Arc<Recorder>>,
    connections: &Connections,
) -> Result<(Consumer, Vec<Warning>), QueueFault> {
    let policy = match policies.iter().find(|(spec, _)| *spec == queue.policy) {
        Some((_, policy)) => Arc::clone(policy),
        None => {
            // Seconds, for a component that carries an interpreter.
            tracing::info!(queue = queue.name, "compiling the policy");
            let policy = LivePolicy::load(sandbox, queue.policy.clone())?;
            policies.push((queue.policy, Arc::clone(&policy)));
            policy
        }
    };
    let shadow = queue.shadow.zip(shadows);
    let shadow = shadow.map(|(spec, sandbox)| Shadow::load(&queue.name, sandbox, spec));
    let mut decider =
        Decider::new(&queue.name, Arc::clone(&policy), queue.bounds).shadowed_by(shadow);
    if let Some(recorder) = recorder {
        decider = decider.observed_by(Arc::clone(recorder) as Arc<dyn Observer>);
    }
    let handler: Arc<dyn Handler> = match &queue.handler {
        HandlerConfig::Http(url) => Arc::new(Http::new(url, &queue.url)?),
        HandlerConfig::Exec(program, arguments) => Arc::new(Exec::new(program, arguments.clone())),
        HandlerConfig::Lambda(function) => Arc::new(Lambda::new(connections.sdk().await, function)),
    };
    let dead_letters = queue.dead_letter_queue.as_deref();
    let (ready, warnings) = consumer::check(
        connections,
        &queue.url,
        dead_letters,
        handler.as_ref(),
        &decider,
        &queue.bounds,
    )
    .await?;
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
    Ok((consumer, warnings))
}

/// Which policies the queues have.
fn places(consumers: &[(String, Consumer)]) -> impl Iterator<Item = Place> {
    consumers.iter().flat_map(|(queue, consumer)| {
        let place = |role, policy: &Arc<LivePolicy>| Place {
            queue: queue.clone(),
            role,
            policy: Arc::clone(policy),
        };
        let decider = consumer.decider();
        let shadow = decider.shadow();
        std::iter::once(place("live", decider.policy()))
            .chain(shadow.map(|shadow| place("shadow", shadow.policy())))
    })
}

/// Watches the files of a queue's shadow, on a thread apart from the live policies', whose new versions wait for no other to be compiled. A shadow that can't be watched stays as it is.
fn watch_shadow((queue, consumer): &(String, Consumer)) -> Option<Watcher> {
    let shadow = consumer.decider().shadow()?;
    Watcher::start(vec![Arc::clone(shadow.policy())], tell_of_shadow)
        .inspect_err(|error| {
            tracing::error!(
                queue,
                "new versions of the shadow are not noticed: {}",
                chain(error)
            );
        })
        .ok()
}

/// Says once what became of a new version of a shadow.
fn tell_of_shadow(policy: &LivePolicy, reload: Reload) {
    let name = policy.current().name();
    match reload {
        Reload::Swapped { from, to } => {
            telemetry::swapped(&name);
            tracing::info!(from, to, "a new version of the shadow is asked from now on");
        }
        Reload::Refused { kept, cause } => {
            telemetry::refused(&name);
            tracing::error!(
                kept,
                "a new version of a shadow is not taken: {}",
                chain(&cause)
            );
        }
        Reload::Unchanged => {}
    }
}

/// Says once what became of a new version.
fn tell(policy: &LivePolicy, reload: Reload) {
    match reload {
        Reload::Swapped { from, to } => {
            telemetry::swapped(&policy.current().name());
            tracing::info!(from, to, "a new version of the policy decides from now on")
        }
        Reload::Refused { kept, cause } => {
            telemetry::refused(&policy.current().name());
            let cause = anyhow::Error::from(cause);
            tracing::error!(kept, "a new version of a policy is not taken: {cause:#}");
        }
        Reload::Unchanged => tracing::debug!(policy = policy.current().title(), "no new version"),
    }
}
