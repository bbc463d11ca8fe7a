//! A policy that may change while it is at work: the version that decides now, and the ways to the next and back.
//!
//! `beginning` finds the first version, `look` the next ones, `making` makes a policy of their files, `back` takes one back; `versions` is what is known of them.

mod initial;
mod load;
mod reload;
mod rollback;
mod versions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use self::initial::{InitialVersion, begin, recall};
use self::versions::{Kind, Refused, Versions};
use super::health::Health;
use super::source::FetchedFile;
use super::{Catalog, PartName, Policy, PolicyDigest, PolicyError, PolicySpec};
use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_core::text::chain;

pub(super) use load::said;
pub(super) use reload::News;
pub use rollback::{NotRolledBack, RolledBack};

/// How long a version may be compiled at a start that has something else to begin with.
const FIRST_COMPILE: Duration = Duration::from_secs(10);

/// How long a source outside this machine may keep a start waiting that has something else to begin with.
const FIRST_LOOK: Duration = Duration::from_secs(4);

/// What the operator asks of every version besides.
#[derive(Clone)]
pub struct Check {
    /// Tells one check from another: policies that are the same but for it are kept apart.
    pub name: String,
    /// Why a version does not pass, if it does not.
    pub passes: Arc<Passes>,
    /// What it asks for now: a version that was refused is tried again when this changes.
    pub digest: Arc<dyn Fn() -> Option<PolicyDigest> + Send + Sync>,
}

/// See [`Check::passes`].
pub type Passes = dyn Fn(&Policy) -> Result<(), String> + Send + Sync;

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
    SourceUnreachable {
        /// The version that stays.
        kept: String,
        /// Why.
        cause: PolicyError,
    },
    /// The source can be read again, and has nothing new.
    SourceRecovered {
        /// The version that has been at work all the while.
        kept: String,
    },
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
    /// The version that is being loaded, while one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling: Option<Compiling>,
    /// When the source was last looked at, in milliseconds since 1970.
    pub looked: Timestamp,
    /// Why the source can't be read, while it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
}

/// A version that is being compiled, probed and checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiling {
    /// The digests of its files, short.
    pub version: String,
    /// Since when, in milliseconds since 1970.
    pub since: Timestamp,
}

/// Shown as being compiled, until dropped.
struct Shown<'a>(&'a Mutex<Option<Compiling>>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The version of a policy that decides now. Decisions under way finish on the version that they began with.
pub struct LivePolicy {
    spec: PolicySpec,
    catalog: Catalog,
    check: Option<Check>,
    current: ArcSwap<Policy>,
    compiling: Mutex<Option<Compiling>>,
    /// What was last found in places that tell of no change. Held while a version is looked for and compiled.
    seen: Mutex<Vec<Arc<FetchedFile>>>,
    /// Held for moments only: a version can be taken back while another is being compiled, and told of while one is.
    versions: Mutex<Versions>,
    /// Held while a version is taken back, also while the one before it is compiled.
    rolling_back: Mutex<()>,
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
        let beginning = begin(&catalog, &spec, check.as_ref(), &known, None)?;
        Ok(Self::starting_with(beginning, catalog, spec, check, known))
    }

    /// As [`LivePolicy::checked`]; where that fails, the fallback decides until a good version comes. For a host that must not stop for a bad policy.
    pub fn load_or_fall_back(
        catalog: impl Into<Catalog>,
        spec: PolicySpec,
        check: Option<Check>,
    ) -> (Arc<Self>, Option<PolicyError>) {
        let catalog = catalog.into();
        let known = recall(&catalog, &spec, check.as_ref());
        let (beginning, error) =
            match begin(&catalog, &spec, check.as_ref(), &known, Some(FIRST_LOOK)) {
                Ok(beginning) => (beginning, None),
                Err(error) => {
                    let absent = InitialVersion {
                        policy: Policy::unavailable(&catalog.sandbox, chain(&error)),
                        files: Vec::new(),
                        instead: None,
                    };
                    (absent, Some(error))
                }
            };
        let live = Self::starting_with(beginning, catalog, spec, check, known);
        (live, error)
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
        self.spec.is_pinned() && !self.current().is_unavailable()
    }

    /// Whether the last look did not settle things: the source could not be read, a version may pass at another time, or there is none yet.
    pub fn is_unsettled(&self) -> bool {
        let versions = self.versions();
        let is_transient = |refused: &Refused| refused.kind == Kind::Transient;
        versions.away.is_some()
            || versions.refused.as_ref().is_some_and(is_transient)
            || self.current().is_unavailable()
    }

    /// Whether the source could not be read when it was last looked at.
    pub fn is_unreachable(&self) -> bool {
        self.versions().away.is_some()
    }

    /// What there is to tell of it.
    pub fn status(&self) -> Status {
        let versions = self.versions();
        let current = self.current();
        Status {
            sources: self.spec.sources().map(ToString::to_string).collect(),
            live: current.parts().collect(),
            title: current.title(),
            since: versions.since,
            looked: versions.looked,
            before: versions.before.title(&self.spec),
            refused: versions
                .refused
                .as_ref()
                .map(|refused| format!("{}: {}", short(&refused.version.digests), refused.why)),
            compiling: self.shown().clone(),
            away: versions.away.clone(),
        }
    }

    /// Shows these as being compiled.
    fn compiling(&self, digests: Vec<PolicyDigest>) -> Shown<'_> {
        *self.shown() = Some(Compiling {
            version: short(&digests),
            since: clock::now(),
        });
        Shown(&self.compiling)
    }

    fn shown(&self) -> MutexGuard<'_, Option<Compiling>> {
        let shown = self.compiling.lock();
        shown.unwrap_or_else(PoisonError::into_inner)
    }

    fn versions(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digests of a version's files, for people.
fn short(digests: &[PolicyDigest]) -> String {
    let digests: Vec<_> = digests.iter().map(PolicyDigest::short).collect();
    digests.join(" + ")
}
