//! A policy that may change while it is at work: the version that decides now, and the ways to the next and back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use super::health::Health;
use super::source::Found;
use super::store::{Kept, Known, TakenBack};
use super::{Catalog, PartName, Policy, PolicyDigest, PolicyError, PolicySpec};
use crate::clock;
use crate::failure::Timestamp;
use crate::telemetry;
use crate::text::chain;

/// What the operator asks of every version besides.
#[derive(Clone)]
pub struct Check {
    /// Tells one check from another: policies that are the same but for it are kept apart.
    pub name: String,
    /// Why a version does not pass, if it does not.
    pub passes: Arc<dyn Fn(&Policy) -> Result<(), String> + Send + Sync>,
}

/// What came of looking for a new version.
#[derive(Debug)]
pub enum Reload {
    /// There is none, or the one there was refused before.
    Unchanged,
    /// A new version decides from now on.
    Swapped {
        /// The version before, for people.
        from: String,
        /// The version now.
        to: String,
    },
    /// A new version is no good: the one before stays. Told once for each version.
    Refused {
        /// The version that stays.
        kept: String,
        /// Why.
        cause: PolicyError,
    },
    /// The source can't be read: the version at work stays. Told once, until it can be read again.
    Away {
        /// The version that stays.
        kept: String,
        /// Why.
        cause: PolicyError,
    },
    /// The source can be read again, and has nothing new.
    Back {
        /// The version that has been at work all the while.
        kept: String,
    },
}

/// A version was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The version that decided.
    pub from: String,
    /// The version that decides now.
    pub to: String,
}

/// Why no version is taken back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no version before {now} to go back to")]
pub struct NoneBefore {
    /// The version that decides.
    pub now: String,
}

/// What there is to tell of a policy at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// Where its parts come from.
    pub sources: Vec<String>,
    /// The version that decides.
    pub live: Vec<PartName>,
    /// For people.
    pub title: String,
    /// Since when, in milliseconds since 1970.
    pub since: Timestamp,
    /// The good version before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The last version that was refused or taken back: which, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why the source can't be read, while it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
}

/// The version of a policy that decides now. Decisions under way finish on the version that they began with.
pub struct LivePolicy {
    spec: PolicySpec,
    catalog: Catalog,
    check: Option<Check>,
    current: ArcSwap<Policy>,
    /// Held while a version is looked for and compiled.
    looking: Mutex<Looking>,
    /// Held for moments only: a version can be taken back while another is being compiled.
    versions: Mutex<Versions>,
    health: Health,
}

impl std::fmt::Debug for LivePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivePolicy")
            .field("spec", &self.spec)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

/// What is known of the source.
#[derive(Default)]
struct Looking {
    /// What was last found in places that tell of no change.
    seen: Vec<Arc<Found>>,
    /// What was said of the source when it could not be read.
    away: Option<String>,
}

/// What is known of the versions.
struct Versions {
    live: Vec<Kept>,
    before: Before,
    refused: Option<Refused>,
    since: Timestamp,
}

/// The good version before the one that decides.
enum Before {
    None,
    /// Ready to decide.
    Ready(Arc<Policy>, Vec<Kept>),
    /// Kept from an earlier run, to be compiled when it is needed.
    Stored(Vec<Kept>),
}

/// The version that was last found to be no good, so that it is told and tried once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    version: Version,
    why: String,
    taken_back: bool,
}

/// What tells one version from another: the digests of its files, and their signatures where those are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    digests: Vec<PolicyDigest>,
    signatures: Vec<Option<String>>,
}

impl Version {
    fn of(files: &[Arc<Found>]) -> Self {
        Self {
            digests: digests(files),
            signatures: files.iter().map(|file| file.signature.clone()).collect(),
        }
    }
}

fn digests(files: &[Arc<Found>]) -> Vec<PolicyDigest> {
    files.iter().map(|file| file.digest).collect()
}

fn kept(files: &[Arc<Found>]) -> Vec<Kept> {
    files.iter().map(Kept::from).collect()
}

/// How a policy begins.
struct Beginning {
    policy: Policy,
    files: Vec<Arc<Found>>,
    /// Why it is not the version of the source.
    instead: Option<PolicyError>,
}

impl LivePolicy {
    /// Loads the first version. Where the source is away or has no good version, that is the last good one of an earlier run, if it was kept. Blocks.
    pub fn load(catalog: impl Into<Catalog>, spec: PolicySpec) -> Result<Arc<Self>, PolicyError> {
        Self::checked(catalog, spec, None)
    }

    /// As [`LivePolicy::load`], with a check of the operator's that every version has to pass.
    pub fn checked(
        catalog: impl Into<Catalog>,
        spec: PolicySpec,
        check: Option<Check>,
    ) -> Result<Arc<Self>, PolicyError> {
        let catalog = catalog.into();
        let known = recall(&catalog, &spec, check.as_ref());
        let beginning = begin(&catalog, &spec, check.as_ref(), &known)?;
        Ok(Self::beginning_with(beginning, catalog, spec, check, known))
    }

    /// As [`LivePolicy::checked`]; where that fails, the fallback decides until a good version comes. For a host that must not stop for a bad policy.
    pub fn load_or_stand_in(
        catalog: impl Into<Catalog>,
        spec: PolicySpec,
        check: Option<Check>,
    ) -> (Arc<Self>, Option<PolicyError>) {
        let catalog = catalog.into();
        let known = recall(&catalog, &spec, check.as_ref());
        let (beginning, error) = match begin(&catalog, &spec, check.as_ref(), &known) {
            Ok(beginning) => (beginning, None),
            Err(error) => {
                let absent = Beginning {
                    policy: Policy::absent(&catalog.sandbox, chain(&error)),
                    files: Vec::new(),
                    instead: None,
                };
                (absent, Some(error))
            }
        };
        let live = Self::beginning_with(beginning, catalog, spec, check, known);
        (live, error)
    }

    fn beginning_with(
        beginning: Beginning,
        catalog: Catalog,
        spec: PolicySpec,
        check: Option<Check>,
        known: Known,
    ) -> Arc<Self> {
        let Beginning {
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
        let before = match (known.live == live, known.before.is_empty()) {
            // The same version as in the run before, and what that kept.
            (true, false) => Before::Stored(known.before),
            (false, _) if !known.live.is_empty() => Before::Stored(known.live),
            (true | false, _) => Before::None,
        };
        let refused = known.taken_back.map(|taken_back| Refused {
            version: Version {
                signatures: vec![None; taken_back.version.len()],
                digests: taken_back.version,
            },
            why: taken_back.why,
            taken_back: true,
        });
        let this = Self {
            health: Health::new(catalog.roll_back),
            current: ArcSwap::from_pointee(policy),
            looking: Mutex::new(Looking {
                // What was kept is not what the source has now, whatever the source was.
                seen: if instead.is_none() { files } else { Vec::new() },
                away: match &instead {
                    Some(cause @ PolicyError::Source(_)) => Some(chain(cause)),
                    Some(_) | None => None,
                },
            }),
            versions: Mutex::new(Versions {
                live,
                before,
                refused,
                since: clock::now(),
            }),
            spec,
            catalog,
            check,
        };
        this.remember(&this.versions());
        Arc::new(this)
    }

    /// The version that decides now.
    pub fn current(&self) -> Arc<Policy> {
        self.current.load_full()
    }

    /// What it is loaded from.
    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// What it has in common with the others.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether it stays as it is for ever: loaded, and pinned.
    pub fn is_settled(&self) -> bool {
        self.spec.is_pinned() && !self.current().is_absent()
    }

    /// Whether the source could not be read when it was last looked at.
    pub(crate) fn is_away(&self) -> bool {
        let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        looking.away.is_some()
    }

    /// What there is to tell of it.
    pub fn status(&self) -> Status {
        let away = self.looking.try_lock().ok();
        let versions = self.versions();
        let current = self.current();
        Status {
            sources: self.spec.sources().map(ToString::to_string).collect(),
            live: current.parts().collect(),
            title: current.title(),
            since: versions.since,
            before: versions.before.title(),
            refused: versions.refused.as_ref().map(|refused| {
                let digests = refused.version.digests.iter();
                let digests: Vec<_> = digests.map(PolicyDigest::short).collect();
                format!("{}: {}", digests.join(" + "), refused.why)
            }),
            away: away.and_then(|looking| looking.away.clone()),
        }
    }

    /// Looks at the source again: a version that is new and good is put in place at once, everything else leaves the old one. Blocks while it fetches and compiles; decisions go on meanwhile.
    pub fn reload(&self) -> Reload {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.current();
        let files = match self.spec.look(&self.catalog, &looking.seen) {
            Ok(files) => files,
            Err(cause) => {
                let cause = PolicyError::from(cause);
                let said = chain(&cause);
                let was_said = looking.away.replace(said.clone()) == Some(said);
                return match was_said {
                    true => Reload::Unchanged,
                    false => Reload::Away {
                        kept: now.title(),
                        cause,
                    },
                };
            }
        };
        let was_away = looking.away.take().is_some();
        let nothing_new = || match was_away {
            true => Reload::Back { kept: now.title() },
            false => Reload::Unchanged,
        };
        let version = Version::of(&files);
        looking.seen.clone_from(&files);
        if version.digests == now.digests() {
            self.forgive();
            return nothing_new();
        }
        if self.is_refused(&version) {
            return nothing_new();
        }
        match make(
            &self.catalog,
            &self.spec,
            self.check.as_ref(),
            &files,
            Some(&now),
        ) {
            Ok(policy) => self.swap(policy, &files),
            Err(cause) => {
                if let PolicyError::Signature { .. } = cause {
                    // The signature may come by itself, beside a file that stays the same.
                    looking.seen.clear();
                }
                // What a busy machine may be to blame for is tried again.
                self.versions().refused = (!cause.may_pass()).then(|| Refused {
                    version,
                    why: chain(&cause),
                    taken_back: false,
                });
                Reload::Refused {
                    kept: now.title(),
                    cause,
                }
            }
        }
    }

    /// What was refused is worth another look when it comes again: the source has something else now.
    fn forgive(&self) {
        let mut versions = self.versions();
        if versions.refused.take().is_some_and(|it| it.taken_back) {
            self.remember(&versions);
        }
    }

    fn is_refused(&self, version: &Version) -> bool {
        let versions = self.versions();
        versions.refused.as_ref().is_some_and(|refused| {
            // What broke at work does so under whatever signature.
            refused.version == *version
                || (refused.taken_back && refused.version.digests == version.digests)
        })
    }

    fn swap(&self, policy: Policy, files: &[Arc<Found>]) -> Reload {
        let to = policy.title();
        if let Some(store) = &self.catalog.store {
            store.keep(files);
        }
        let mut versions = self.versions();
        let before = self.current.swap(Arc::new(policy));
        self.health.begin();
        let from = before.title();
        let left = std::mem::replace(&mut versions.live, kept(files));
        if !before.is_absent() {
            versions.before = Before::Ready(before, left);
        }
        versions.refused = None;
        versions.since = clock::now();
        self.remember(&versions);
        Reload::Swapped { from, to }
    }

    /// A decision on this version broke: after so many in a time, the version before comes back by itself.
    pub(crate) fn broke(&self, version: &Arc<Policy>) -> Option<RolledBack> {
        if version.is_absent() || !Arc::ptr_eq(version, &self.current()) {
            return None;
        }
        let count = self.health.broke(clock::instant())?;
        let why = format!(
            "{count} broken decisions within {:?}",
            self.catalog.roll_back.within
        );
        match self.take_back(Some(version), &why) {
            Ok(rolled_back) => {
                tracing::error!(
                    from = rolled_back.from,
                    to = rolled_back.to,
                    "a version of the policy is taken back after {why}: it is not tried again until its source changes"
                );
                Some(rolled_back)
            }
            Err(_) => None,
        }
    }

    /// Takes the version that decides back, for the good one before it. It is not tried again until the source has another.
    pub fn roll_back(&self, why: &str) -> Result<RolledBack, NoneBefore> {
        self.take_back(None, why)
    }

    /// `only` is the version that is to be taken back, if it must be that one.
    fn take_back(&self, only: Option<&Arc<Policy>>, why: &str) -> Result<RolledBack, NoneBefore> {
        let mut versions = self.versions();
        let now = self.current();
        let none = || NoneBefore { now: now.title() };
        if only.is_some_and(|only| !Arc::ptr_eq(only, &now)) {
            return Err(none());
        }
        let (policy, live) = match std::mem::replace(&mut versions.before, Before::None) {
            Before::None => return Err(none()),
            Before::Ready(policy, kept) => (policy, kept),
            Before::Stored(kept) => {
                let policy = self.from_store(&kept, &now).ok_or_else(none)?;
                (Arc::new(policy), kept)
            }
        };
        let to = policy.title();
        self.current.store(policy);
        self.health.begin();
        versions.live = live;
        versions.since = clock::now();
        versions.refused = Some(Refused {
            version: Version {
                digests: now.digests(),
                signatures: Vec::new(),
            },
            why: why.to_owned(),
            taken_back: true,
        });
        self.remember(&versions);
        telemetry::rolled_back(&now.name());
        Ok(RolledBack {
            from: now.title(),
            to,
        })
    }

    fn from_store(&self, version: &[Kept], now: &Policy) -> Option<Policy> {
        let files = self.catalog.store.as_ref()?.files_of(version)?;
        let made = make(
            &self.catalog,
            &self.spec,
            self.check.as_ref(),
            &files,
            Some(now),
        );
        made.map_err(|cause| {
            tracing::error!("the version before is no longer good: {}", chain(&cause));
        })
        .ok()
    }

    fn remember(&self, versions: &Versions) {
        let Some(store) = &self.catalog.store else {
            return;
        };
        if versions.live.is_empty() {
            return;
        }
        let taken_back = versions.refused.as_ref().filter(|it| it.taken_back);
        let known = Known {
            live: versions.live.clone(),
            before: versions.before.kept().to_vec(),
            taken_back: taken_back.map(|refused| TakenBack {
                version: refused.version.digests.clone(),
                why: refused.why.clone(),
            }),
        };
        store.remember(&self.spec, name_of(self.check.as_ref()), &known);
    }

    fn versions(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Before {
    fn kept(&self) -> &[Kept] {
        match self {
            Self::None => &[],
            Self::Ready(_, kept) | Self::Stored(kept) => kept,
        }
    }

    fn title(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Ready(policy, _) => Some(policy.title()),
            Self::Stored(kept) => {
                let digests: Vec<_> = kept.iter().map(Kept::short).collect();
                Some(digests.join(" + "))
            }
        }
    }
}

fn name_of(check: Option<&Check>) -> &str {
    check.map_or("", |check| check.name.as_str())
}

fn recall(catalog: &Catalog, spec: &PolicySpec, check: Option<&Check>) -> Known {
    let store = catalog.store.as_ref();
    store
        .and_then(|store| store.recall(spec, name_of(check)))
        .unwrap_or_default()
}

/// The version of the source, if it is good and was not taken back; the one that decided last, if not.
fn begin(
    catalog: &Catalog,
    spec: &PolicySpec,
    check: Option<&Check>,
    known: &Known,
) -> Result<Beginning, PolicyError> {
    let store = catalog.store.as_ref();
    let last = store.and_then(|store| store.files_of(&known.live));
    let last_good = |instead: PolicyError| match &last {
        None => Err(instead),
        Some(files) => match make(catalog, spec, check, files, None) {
            Ok(policy) => Ok(Beginning {
                policy,
                files: files.clone(),
                instead: Some(instead),
            }),
            Err(_) => Err(instead),
        },
    };
    let files = match spec.look(catalog, last.as_deref().unwrap_or_default()) {
        Ok(files) => files,
        Err(cause) => return last_good(cause.into()),
    };
    if let Some(taken_back) = &known.taken_back
        && taken_back.version == digests(&files)
        && last.is_some()
    {
        let why = taken_back.why.clone();
        return last_good(PolicyError::TakenBack {
            name: spec.title(),
            why,
        });
    }
    match make(catalog, spec, check, &files, None) {
        Ok(policy) => {
            if let Some(store) = store {
                store.keep(&files);
            }
            Ok(Beginning {
                policy,
                files,
                instead: None,
            })
        }
        Err(cause) => last_good(cause),
    }
}

/// As [`PolicySpec::make`], and past the operator's own check.
fn make(
    catalog: &Catalog,
    spec: &PolicySpec,
    check: Option<&Check>,
    files: &[Arc<Found>],
    kept: Option<&Policy>,
) -> Result<Policy, PolicyError> {
    let policy = spec.make(catalog, files, kept)?;
    match check.map(|check| (check.passes)(&policy)) {
        Some(Err(cause)) => Err(PolicyError::Scenarios {
            name: policy.title(),
            cause,
        }),
        Some(Ok(())) | None => Ok(policy),
    }
}
