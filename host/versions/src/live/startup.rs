//! The startup: the first version is that of the source or, if the source is unreachable or has no good version, the last good version of an earlier run.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::text::chain;
use backstop_engine::Policy;

use super::pipeline::{Check, Files, Pipeline, check_name};
use super::policy::{FETCH_TIMEOUT, LivePolicy};
use super::refusals::Applicable;
use super::state::{Initial, State, StorePlace};
use super::version::{NewestSignatures, digests};
use crate::catalog::Catalog;
use crate::error::PolicyError;
use crate::spec::PolicySpec;
use crate::store::{PersistedState, StoredFile};

/// The time limit for compiling at a start that has another version to use.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// The version that a policy starts with.
struct InitialVersion {
    policy: Policy,
    files: Files,
    /// Why it is not the version of the source, if it is not.
    instead: Option<PolicyError>,
}

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
        let catalog = catalog.into();
        let persisted = persisted_state(&catalog, &spec, check.as_ref());
        let initial = initial_version(&catalog, &spec, check.as_ref(), &persisted, None)?;
        Ok(Self::starting_with(
            initial, catalog, spec, check, persisted,
        ))
    }

    /// Like [`LivePolicy::checked`]; if that fails, the fallback decides until there is a good version. For hosts that must start even with a bad policy.
    pub fn load_or_fall_back(
        catalog: impl Into<Catalog>,
        spec: PolicySpec,
        check: Option<Check>,
    ) -> (Arc<Self>, Option<PolicyError>) {
        let catalog = catalog.into();
        let persisted = persisted_state(&catalog, &spec, check.as_ref());
        let within = Some(FETCH_TIMEOUT);
        let (initial, error) =
            match initial_version(&catalog, &spec, check.as_ref(), &persisted, within) {
                Ok(initial) => (initial, None),
                Err(error) => {
                    let unavailable = InitialVersion {
                        policy: Policy::unavailable(&catalog.sandbox, chain(&error)),
                        files: Vec::new(),
                        instead: None,
                    };
                    (unavailable, Some(error))
                }
            };
        let live = Self::starting_with(initial, catalog, spec, check, persisted);
        (live, error)
    }

    fn starting_with(
        initial: InitialVersion,
        catalog: Catalog,
        spec: PolicySpec,
        check: Option<Check>,
        persisted: PersistedState,
    ) -> Arc<Self> {
        let InitialVersion {
            policy,
            files,
            instead,
        } = initial;
        if let Some(cause) = &instead {
            tracing::error!(
                policy = policy.title(),
                "{}: the last good version is used",
                chain(cause)
            );
        }
        let pipeline = Pipeline {
            catalog: &catalog,
            spec: &spec,
            check: check.as_ref(),
        };
        let initial = Initial {
            signed: pipeline.signed_at(&files),
            policy,
            files,
            is_from_source: instead.is_none(),
            unreachable: match &instead {
                Some(PolicyError::Source(cause)) if cause.is_unreachable() => Some(chain(cause)),
                Some(_) | None => None,
            },
            persisted,
        };
        let place = StorePlace {
            store: catalog.store.clone(),
            key: spec.identity(check_name(check.as_ref())),
        };
        let state = State::new(initial, catalog.roll_back, place);
        Arc::new(Self {
            spec,
            catalog,
            check,
            state,
        })
    }
}

fn persisted_state(catalog: &Catalog, spec: &PolicySpec, check: Option<&Check>) -> PersistedState {
    let store = catalog.store.as_ref();
    store
        .and_then(|store| store.recall(&spec.identity(check_name(check))))
        .unwrap_or_default()
}

/// The version of the source, if it is good and was not rolled back; otherwise the last good version. `within` is the time limit for a source outside this machine; it means that the fallback can decide in the meantime. If there is a last good version, there is always a time limit.
fn initial_version(
    catalog: &Catalog,
    spec: &PolicySpec,
    check: Option<&Check>,
    persisted: &PersistedState,
    within: Option<Duration>,
) -> Result<InitialVersion, PolicyError> {
    let store = catalog.store.as_ref();
    let pipeline = Pipeline {
        catalog,
        spec,
        check,
    };
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
    let newest = NewestSignatures::new(
        persisted.live.iter().map(StoredFile::digest).collect(),
        persisted.newest_signatures.clone(),
    );
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
        let why = rolled_back.why.clone();
        return last_good(PolicyError::RolledBack {
            name: spec.title(),
            why,
        });
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
