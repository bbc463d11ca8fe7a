//! The policies of all queues, loaded before the first message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;

use super::QueueFault;
use crate::config::QueueConfig;
use crate::policy::{Catalog, Check, LivePolicy, PolicySpec};
use backstop_versions::scenario::{self, ScenarioError};

/// The policies of all queues: those that are the same are loaded once.
pub(super) struct Loaded {
    catalog: Catalog,
    policies: Vec<(Option<PathBuf>, Arc<LivePolicy>)>,
    faults: Vec<(Wanted, QueueFault)>,
}

/// What a queue wants: its policy, and the scenarios that this has to pass.
pub(super) type Wanted = (PolicySpec, Option<PathBuf>);

impl Loaded {
    pub(super) fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            policies: Vec::new(),
            faults: Vec::new(),
        }
    }

    pub(super) fn all(self) -> Vec<Arc<LivePolicy>> {
        self.policies
            .into_iter()
            .map(|(_, policy)| policy)
            .collect()
    }

    /// Loads what these queues want, all at once: a place that is slow to answer holds up no other policy.
    pub(super) async fn load_all(&mut self, queues: &[QueueConfig]) {
        let mut wanted: Vec<Wanted> = Vec::new();
        for queue in queues {
            let this = (queue.policy.clone(), queue.scenarios.clone());
            if !wanted.contains(&this) {
                wanted.push(this);
            }
        }
        let loading = wanted.into_iter().map(|wanted| async {
            let loaded = load(self.catalog.clone(), wanted.clone()).await;
            (wanted, loaded)
        });
        for (wanted, loaded) in join_all(loading).await {
            match loaded {
                Ok(policy) => self.policies.push((wanted.1, policy)),
                Err(fault) => self.faults.push((wanted, fault)),
            }
        }
    }

    /// The policy that a queue wants, as it was loaded, or now.
    pub(super) async fn get(&mut self, wanted: Wanted) -> Result<Arc<LivePolicy>, QueueFault> {
        let mut same = self.policies.iter();
        if let Some((_, policy)) =
            same.find(|(scenarios, policy)| *policy.spec() == wanted.0 && *scenarios == wanted.1)
        {
            return Ok(Arc::clone(policy));
        }
        if let Some(index) = self.faults.iter().position(|(these, _)| *these == wanted) {
            return Err(self.faults.swap_remove(index).1);
        }
        let policy = load(self.catalog.clone(), wanted.clone()).await?;
        self.policies.push((wanted.1, Arc::clone(&policy)));
        Ok(policy)
    }
}

async fn load(catalog: Catalog, (spec, scenarios): Wanted) -> Result<Arc<LivePolicy>, QueueFault> {
    // Seconds, for a component that carries an interpreter.
    tracing::info!(policy = spec.title(), "loading the policy");
    let check = check(scenarios.as_deref())?;
    Ok(blocking(move || LivePolicy::checked(catalog, spec, check)).await?)
}

/// The operator's own scenarios as a check, where there are any.
pub(crate) fn check(scenarios: Option<&Path>) -> Result<Option<Check>, ScenarioError> {
    scenarios.map(scenario::required).transpose()
}

/// Runs what blocks where it holds up nothing.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
