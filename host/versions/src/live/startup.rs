//! The startup: the first version is that of the source or, if the source is unreachable or has no good version, the last good version of an earlier run.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::text::chain;
use backstop_engine::Policy;

use super::pipeline::{Check, Pipeline};
use super::policy::{FETCH_TIMEOUT, LivePolicy};
use super::refusals::Applicable;
use super::state::{InitialVersion, State, StorePlace};
use super::version::{NewestSignatures, digests};
use crate::catalog::Catalog;
use crate::error::PolicyError;
use crate::spec::PolicySpec;
use crate::store::PersistedState;

/// The time limit for compiling at a start that has another version to use.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

impl LivePolicy {
    /// Loads the first version. If the source is unreachable or has no good version, it is the last good one of an earlier run, if that was stored. Blocks.
    pub fn load(catalog: impl Into<Catalog>, spec: PolicySpec) -> Result<Arc<Self>, PolicyError> {
        Self::checked(catalog, spec, None)
    }

    /// Like [`LivePolicy::load`], with an operator's check that every version must pass.
    pub fn checked(
        catalog: impl Into<Catalog>,
        spec: PolicySpec,
        check: Option<Check>,
    ) -> Result<Arc<Self>, PolicyError> {
        let start = Start::of(catalog.into(), spec, check);
        let initial = start.initial_version(None)?;
        Ok(start.with(initial))
    }

    /// Like [`LivePolicy::checked`]; if that fails, the fallback decides until there is a good version. For hosts that must start even with a bad policy.
    pub fn load_or_fall_back(
        catalog: impl Into<Catalog>,
        spec: PolicySpec,
        check: Option<Check>,
    ) -> (Arc<Self>, Option<PolicyError>) {
        let start = Start::of(catalog.into(), spec, check);
        match start.initial_version(Some(FETCH_TIMEOUT)) {
            Ok(initial) => (start.with(initial), None),
            Err(error) => {
                let unavailable = InitialVersion {
                    policy: Policy::unavailable(&start.catalog.sandbox, chain(&error)),
                    files: Vec::new(),
                    instead: None,
                };
                (start.with(unavailable), Some(error))
            }
        }
    }
}

/// A policy without a version yet.
struct Start {
    catalog: Catalog,
    spec: PolicySpec,
    check: Option<Check>,
    /// The state of an earlier run.
    persisted: PersistedState,
}

impl Start {
    fn of(catalog: Catalog, spec: PolicySpec, check: Option<Check>) -> Self {
        let mut start = Self {
            catalog,
            spec,
            check,
            persisted: PersistedState::default(),
        };
        if let Some(store) = &start.catalog.store {
            let key = start.pipeline().identity();
            start.persisted = store.recall(&key).unwrap_or_default();
        }
        start
    }

    fn pipeline(&self) -> Pipeline<'_> {
        Pipeline {
            catalog: &self.catalog,
            spec: &self.spec,
            check: self.check.as_ref(),
        }
    }

    fn with(self, initial: InitialVersion) -> Arc<LivePolicy> {
        if let Some(cause) = &initial.instead {
            tracing::error!(
                policy = initial.policy.title(),
                "{}: the last good version is used",
                chain(cause)
            );
        }
        let pipeline = self.pipeline();
        let signed = pipeline.signed_at(&initial.files);
        let place = StorePlace {
            store: self.catalog.store.clone(),
            key: pipeline.identity(),
        };
        let limit = self.catalog.roll_back;
        Arc::new(LivePolicy {
            state: State::new(initial, &signed, self.persisted, limit, place),
            spec: self.spec,
            catalog: self.catalog,
            check: self.check,
        })
    }

    /// The version of the source, if it is good and was not rolled back; otherwise the last good version. `within` is the time limit for a source outside this machine; it means that the fallback can decide in the meantime. If there is a last good version, there is always a time limit.
    fn initial_version(&self, within: Option<Duration>) -> Result<InitialVersion, PolicyError> {
        let (store, persisted) = (self.catalog.store.as_ref(), &self.persisted);
        let pipeline = self.pipeline();
        let last = store.and_then(|store| store.files_of(&persisted.live));
        let last_good = |instead: PolicyError| match &last {
            None => Err(instead),
            Some(files) => match pipeline.run(files, None, Applicable::None, &|| true) {
                Ok(policy) => Ok(InitialVersion {
                    policy,
                    files: files.clone(),
                    instead: Some(instead),
                }),
                Err(_) => Err(instead),
            },
        };
        let within = within.or(last.is_some().then_some(FETCH_TIMEOUT));
        let has_fallback = within.is_some() && last.is_none();
        let newest = NewestSignatures::of(&persisted.live, &persisted.newest_signatures);
        let known = last.as_deref().unwrap_or_default();
        let files = match pipeline.fetch(known, &newest, within) {
            Ok(files) => files,
            Err(cause) => return last_good(cause.into()),
        };
        if let Err(too_old) = pipeline.check_age(&files, &newest) {
            return last_good(too_old);
        }
        if let Some(rolled_back) = &persisted.taken_back
            && rolled_back.version == digests(&files)
            && last.is_some()
        {
            let (name, why) = (self.spec.title(), rolled_back.why.clone());
            return last_good(PolicyError::RolledBack { name, why });
        }
        let applicable = match &last {
            Some(last) if digests(last) != digests(&files) => Applicable::All,
            None if has_fallback => Applicable::Compiler,
            Some(_) | None => Applicable::None,
        };
        // If the last good version can be used, the start does not wait long: the next update check compiles the new one.
        let started = clock::instant();
        let in_time = || applicable != Applicable::All || started.elapsed() < COMPILE_TIMEOUT;
        match pipeline.run(&files, None, applicable, &in_time) {
            Ok(policy) => {
                if let Some(store) = store {
                    store.keep(&files);
                }
                Ok(InitialVersion {
                    policy,
                    files,
                    instead: None,
                })
            }
            Err(cause) => last_good(cause),
        }
    }
}
