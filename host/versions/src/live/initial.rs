//! The first version: the source's, or the last good one of an earlier run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::super::health::Health;
use super::super::source::FetchedFile;
use super::super::store::{PersistedState, StoredFile};
use super::super::{Catalog, Policy, PolicyError, PolicySpec};
use super::load::{Heed, Making};
use super::versions::{Before, Kind, Refused, Version, Versions, digests, kept};
use super::{Check, FIRST_COMPILE, FIRST_LOOK, LivePolicy};
use backstop_core::clock;
use backstop_core::text::chain;

/// How a policy begins.
pub(super) struct InitialVersion {
    pub(super) policy: Policy,
    pub(super) files: Vec<Arc<FetchedFile>>,
    /// Why it is not the version of the source.
    pub(super) instead: Option<PolicyError>,
}

impl LivePolicy {
    pub(super) fn starting_with(
        beginning: InitialVersion,
        catalog: Catalog,
        spec: PolicySpec,
        check: Option<Check>,
        known: PersistedState,
    ) -> Arc<Self> {
        let InitialVersion {
            policy,
            files,
            instead,
        } = beginning;
        if let Some(cause) = &instead {
            tracing::error!(
                policy = policy.title(),
                "{}: the version that was last good decides",
                chain(cause)
            );
        }
        let live = kept(&files);
        // The same files, whatever their source calls this version of them now.
        let is_same = known
            .live
            .iter()
            .map(StoredFile::digest)
            .eq(live.iter().map(StoredFile::digest));
        let before = match (is_same, known.before.is_empty()) {
            // The same version as in the run before, and what that kept.
            (true, false) => Before::Stored(known.before),
            (false, _) if !known.live.is_empty() => Before::Stored(known.live),
            (true | false, _) => Before::None,
        };
        let refused = known.taken_back.map(|taken_back| Refused {
            version: Version::at_work(taken_back.version),
            why: taken_back.why,
            kind: Kind::RolledBack,
        });
        let this = Self {
            health: Health::new(catalog.roll_back),
            current: ArcSwap::from_pointee(policy),
            compiling: Mutex::default(),
            rolling_back: Mutex::default(),
            // What was kept is not what the source has now, whatever the source was.
            seen: Mutex::new(if instead.is_none() { files } else { Vec::new() }),
            versions: Mutex::new(Versions {
                live,
                before,
                refused,
                away: match &instead {
                    Some(cause @ PolicyError::Source(_)) => Some(chain(cause)),
                    Some(_) | None => None,
                },
                since: clock::now(),
                looked: clock::now(),
                remembered: clock::now(),
            }),
            spec,
            catalog,
            check,
        };
        this.remember(&mut this.versions());
        if let Some(store) = &this.catalog.store {
            store.sweep();
        }
        Arc::new(this)
    }
}

pub(super) fn name_of(check: Option<&Check>) -> &str {
    check.map_or("", |check| check.name.as_str())
}

pub(super) fn recall(
    catalog: &Catalog,
    spec: &PolicySpec,
    check: Option<&Check>,
) -> PersistedState {
    let store = catalog.store.as_ref();
    store
        .and_then(|store| store.recall(spec, name_of(check)))
        .unwrap_or_default()
}

/// The version of the source, if it is good and was not taken back; the one that decided last, if not. `within` bounds a look over the network, and says that there is the fallback to go on with; with a version to go on with, a look is always bounded.
pub(super) fn begin(
    catalog: &Catalog,
    spec: &PolicySpec,
    check: Option<&Check>,
    known: &PersistedState,
    within: Option<Duration>,
) -> Result<InitialVersion, PolicyError> {
    let store = catalog.store.as_ref();
    let last = store.and_then(|store| store.files_of(&known.live));
    let making = |heeds, wanted| Making {
        catalog,
        spec,
        check,
        kept: None,
        heeds,
        wanted,
    };
    let last_good = |instead: PolicyError| match &last {
        None => Err(instead),
        Some(files) => match making(Heed::None, &|| true).make(files) {
            Ok(policy) => Ok(InitialVersion {
                policy,
                files: files.clone(),
                instead: Some(instead),
            }),
            Err(_) => Err(instead),
        },
    };
    let look_within = within.or(last.is_some().then_some(FIRST_LOOK));
    let files = match spec.look(catalog, last.as_deref().unwrap_or_default(), look_within) {
        Ok(files) => files,
        Err(cause) => return last_good(cause.into()),
    };
    if let Some(taken_back) = &known.taken_back
        && taken_back.version == digests(&files)
        && last.is_some()
    {
        let why = taken_back.why.clone();
        return last_good(PolicyError::RolledBack {
            name: spec.title(),
            why,
        });
    }
    let heeds = match &last {
        Some(last) if digests(last) != digests(&files) => Heed::All,
        None if within.is_some() => Heed::Compiler,
        Some(_) | None => Heed::None,
    };
    // Where the last good version can go on meanwhile, no start waits for long: the next look compiles it.
    let began = clock::instant();
    let in_time = || heeds != Heed::All || began.elapsed() < FIRST_COMPILE;
    match making(heeds, &in_time).make(&files) {
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
