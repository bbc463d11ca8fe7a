//! From a configuration to what decides: policies, shadows, deciders and the recorder.
//!
//! `backstop run`, the Lambda retry handler, `backstop doctor` and `backstop policy replay --config` all build these here. So the policy that a check accepts is the one that runs, in the same sandbox and under the same limits.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::config::{Config, DeciderConfig};
use crate::policy::{
    Catalog, Check, Compiled, LivePolicy, PolicyError, PolicySpec, Sandbox, SandboxError, Store,
    StoreError,
};
use crate::record::{Observer, RecordError, Recorded, Recorder};
use crate::shadow::{self, Shadow};
use crate::text::chain;
use backstop_decider::Decider;
use backstop_versions::Remotes;
use backstop_versions::scenario::{self, ScenarioError};

/// What all policies of a configuration share, and the recorder of their decisions.
pub struct Assembly {
    catalog: Catalog,
    /// For shadows, if there are any.
    shadows: Option<Catalog>,
    recorder: Option<Arc<Recorder>>,
    recorded: Recorded,
    /// Sees all decisions, too.
    observer: Option<Arc<dyn Observer>>,
}

backstop_core::shown!(Assembly, assembly => catalog = assembly.catalog, recorder = assembly.recorder, recorded = assembly.recorded);

/// Why a configuration can't be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// This machine can't run the sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The cache directory of the policies can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Decision records can't be written.
    #[error(transparent)]
    Records(#[from] RecordError),
}

/// Why a policy can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The policy is rejected, or its source is unreachable.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The scenarios that it has to pass can't be used.
    #[error(transparent)]
    Scenarios(#[from] ScenarioError),
}

impl Assembly {
    /// For the host of a consumer.
    pub(crate) fn for_consumer(config: &Config) -> Result<Self, AssemblyError> {
        Self::for_host(config, Sandbox::new(config.limits)?)
    }

    /// For the Lambda retry handler. `compiled` comes with its package; it evaluates this many decisions at once.
    pub(crate) fn for_lambda(
        config: &Config,
        compiled: Compiled,
        decisions: u32,
    ) -> Result<Self, AssemblyError> {
        let sandbox = Sandbox::new(config.limits)?
            .with_compiled(compiled)
            .deciding_at_once(decisions);
        Self::for_host(config, sandbox)
    }

    /// For a check. Nothing is stored, so no version of an earlier run replaces one that is rejected. Nothing is recorded, and no decision is compared with a shadow's.
    pub fn for_check(config: &Config) -> Result<Self, SandboxError> {
        Ok(Self {
            catalog: catalog(config, Sandbox::new(config.limits)?, None),
            shadows: None,
            recorder: None,
            recorded: Recorded::Decisions,
            observer: None,
        })
    }

    fn for_host(config: &Config, sandbox: Sandbox) -> Result<Self, AssemblyError> {
        let catalog = catalog(config, sandbox, config.policies.cache.open()?);
        let has_shadow = config.deciders().any(|(_, it)| it.shadow.is_some());
        let shadows = has_shadow.then(|| shadow_catalog(&catalog)).transpose()?;
        let recorder = config.decisions.as_ref().map(Recorder::open).transpose()?;
        Ok(Self {
            catalog,
            shadows,
            recorder,
            recorded: config.recorded,
            observer: None,
        })
    }

    /// Passes all decisions to this observer too, if there is one.
    pub(crate) fn observed_by(self, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { observer, ..self }
    }

    /// The cache directory of the policies, if there is one.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.catalog.store.as_ref()
    }

    /// Writes the decision records, if they are written.
    pub(crate) fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.as_ref()
    }

    /// Loads a policy, without scenarios. Blocks.
    pub fn load(&self, policy: &PolicySpec) -> Result<Arc<LivePolicy>, PolicyError> {
        LivePolicy::load(&self.catalog, policy.clone())
    }

    /// Loads the policy of a decider, which has to pass its scenarios.
    pub(crate) async fn policy(
        &self,
        config: &DeciderConfig,
    ) -> Result<Arc<LivePolicy>, LoadError> {
        // For a component with an interpreter, this takes seconds.
        tracing::info!(policy = config.policy.title(), "loading the policy");
        let check = check(config)?;
        let catalog = signed_for(self.catalog.clone(), config);
        Ok(Self::checked(catalog, &config.policy, check).await?)
    }

    /// Loads the policy of a decider's shadow, if it has one, as a live one would be.
    pub(crate) async fn shadow_policy(
        &self,
        config: &DeciderConfig,
    ) -> Option<Result<Arc<LivePolicy>, PolicyError>> {
        let shadow = config.shadow.as_ref()?;
        Some(Self::checked(self.catalog.clone(), shadow, None).await)
    }

    async fn checked(
        catalog: Catalog,
        policy: &PolicySpec,
        check: Option<Check>,
    ) -> Result<Arc<LivePolicy>, PolicyError> {
        let spec = policy.clone();
        blocking(move || LivePolicy::checked(catalog, spec, check)).await
    }

    /// Loads the policies of these deciders, all at once: a slow source delays no other policy. Deciders with the same policy and scenarios share it.
    pub(crate) async fn policies(
        &self,
        configs: &[&DeciderConfig],
    ) -> Vec<Result<Arc<LivePolicy>, Arc<LoadError>>> {
        let mut distinct: Vec<&DeciderConfig> = Vec::new();
        let mut positions = Vec::new();
        for config in configs {
            let same = |other: &&DeciderConfig| other.shares_policy(config);
            positions.push(distinct.iter().position(same).unwrap_or(distinct.len()));
            if positions.last() == Some(&distinct.len()) {
                distinct.push(config);
            }
        }
        let loading = distinct.into_iter().map(|config| self.policy(config));
        let loaded = join_all(loading).await.into_iter();
        let loaded: Vec<_> = loaded.map(|loaded| loaded.map_err(Arc::new)).collect();
        let of = |position| loaded.get(position).cloned();
        positions.into_iter().filter_map(of).collect()
    }

    /// As [`policy`](Self::policy), for a host that starts without a valid policy too: the fallback decides until there is one.
    pub(crate) async fn policy_or_fallback(
        &self,
        config: &DeciderConfig,
    ) -> Result<Arc<LivePolicy>, ScenarioError> {
        let catalog = signed_for(self.catalog.clone(), config);
        let (spec, check) = (config.policy.clone(), check(config)?);
        let loading = blocking(move || LivePolicy::load_or_fall_back(catalog, spec, check));
        let (policy, refused) = loading.await;
        if let Some(error) = refused {
            tracing::error!(
                "{}: the fallback decides until there is a valid version",
                chain(&error)
            );
        }
        Ok(policy)
    }

    /// Loads the shadow of a decider, if it has one. `queue` is the queue's name.
    pub(crate) async fn shadow(&self, queue: &str, config: &DeciderConfig) -> Option<Arc<Shadow>> {
        let (catalog, spec) = self.shadows.clone().zip(config.shadow.clone())?;
        let queue = queue.to_owned();
        Some(blocking(move || Shadow::load(&queue, catalog, spec)).await)
    }

    /// The decider of a queue with this name: the policy within the configured bounds, with its decisions recorded.
    pub(crate) fn decider(
        &self,
        queue: &str,
        config: &DeciderConfig,
        policy: Arc<LivePolicy>,
    ) -> Decider {
        let decider = Decider::new(queue, policy, config.bounds).recording(self.recorded);
        let recorder = self.recorder.clone();
        let recorder = recorder.map(|it| it as Arc<dyn Observer>);
        let observers = recorder.into_iter().chain(self.observer.clone());
        observers.fold(decider, Decider::observed_by)
    }
}

/// What the policies of a configuration share. Versions and compiled code are kept in the store, if there is one.
fn catalog(config: &Config, sandbox: Sandbox, store: Option<Store>) -> Catalog {
    let compiled = sandbox.compiled().clone();
    let policies = &config.policies;
    Catalog {
        sandbox: sandbox.with_compiled(compiled.kept_in(store.as_ref().map(Store::code))),
        remotes: Remotes::new(config.endpoint_url.clone(), policies.registries.clone()),
        refusals: store.clone(),
        store,
        keys: policies.keys.clone(),
        refresh: policies.refresh,
        poll: policies.poll,
        roll_back: policies.roll_back,
    }
}

/// The same catalog, with keys that sign for the policy of this decider only, if it requires that.
fn signed_for(catalog: Catalog, config: &DeciderConfig) -> Catalog {
    let keys = catalog.keys.clone();
    Catalog {
        keys: keys.map(|keys| keys.signed_for(config.signed_for.clone())),
        ..catalog
    }
}

/// A catalog for shadows. They have an engine of their own without an instance pool, so they cannot take the live policies' slots, memory or instances. All shadows together evaluate one decision at a time and use at most one processor. Nothing of a shadow is stored, so a restart cannot mistake it for a live version.
fn shadow_catalog(live: &Catalog) -> Result<Catalog, SandboxError> {
    let compiled = live.sandbox.compiled().clone();
    let sandbox = shadow::sandbox(*live.sandbox.limits())?.with_compiled(compiled);
    Ok(Catalog {
        sandbox,
        store: None,
        ..live.clone()
    })
}

/// The operator's scenarios as a check, if there are any.
fn check(config: &DeciderConfig) -> Result<Option<Check>, ScenarioError> {
    let scenarios = config.scenarios.as_deref();
    scenarios.map(scenario::required).transpose()
}

/// Runs blocking work on a thread for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
