//! A look for a new version, and the swap.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::super::source::FetchedFile;
use super::super::{Policy, PolicyError};
use super::load::{Heed, Making};
use super::versions::{Before, Kind, Refused, Version, digests, kept};
use super::{FIRST_LOOK, LivePolicy, Reload};
use backstop_core::clock;
use backstop_core::text::chain;

/// How often a policy that does not change is written down again.
const DAY: Duration = Duration::from_secs(86_400);

/// What happened while a version was being compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing.
    None,
    /// The source may have another one.
    Changed,
    /// The host ends.
    Ended,
}

impl LivePolicy {
    /// Looks at the source again: a version that is new and good is put in place at once, everything else leaves the old one. Blocks while it fetches and compiles; decisions go on meanwhile.
    pub fn reload(&self) -> Reload {
        self.reload_with(&|| News::None)
    }

    /// The same; `news` is asked many times a second while a child compiles. A version is given up for the next one, and when the host ends.
    pub(crate) fn reload_with(&self, news: &dyn Fn() -> News) -> Reload {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(reload) = self.reload_once(&mut seen, news) {
                return reload;
            }
        }
    }

    /// What came of one look; nothing where the version was given up for the next one.
    fn reload_once(
        &self,
        seen: &mut Vec<Arc<FetchedFile>>,
        news: &dyn Fn() -> News,
    ) -> Option<Reload> {
        self.note_look();
        let files = match self.spec.look(&self.catalog, seen, None) {
            Ok(files) => files,
            Err(cause) => {
                let cause = PolicyError::from(cause);
                let said = chain(&cause);
                let was_said = self.versions().away.replace(said).is_some();
                return Some(match was_said {
                    true => Reload::Unchanged,
                    false => Reload::SourceUnreachable {
                        kept: self.current().title(),
                        cause,
                    },
                });
            }
        };
        let was_away = self.versions().away.take().is_some();
        let nothing_new = || match was_away {
            true => Reload::SourceRecovered {
                kept: self.current().title(),
            },
            false => Reload::Unchanged,
        };
        let version = Version::of(&files, self.check.as_ref());
        seen.clone_from(&files);
        if self.is_live(&version) {
            return Some(nothing_new());
        }
        let again = match self.refused(&version) {
            Some(Kind::Refused | Kind::RolledBack) => return Some(nothing_new()),
            Some(Kind::Transient) => true,
            None => false,
        };
        match self.make(&files, news) {
            Ok(policy) => Some(self.swap(policy, &files)),
            Err(cause) if cause.is_unwanted() => match news() {
                News::Ended => Some(Reload::Unchanged),
                News::None | News::Changed => None,
            },
            Err(cause) => Some(self.refuse(version, cause, again)),
        }
    }

    /// The version of these files, unless there is another one before it is compiled.
    fn make(
        &self,
        files: &[Arc<FetchedFile>],
        news: &dyn Fn() -> News,
    ) -> Result<Policy, PolicyError> {
        let _compiling = self.compiling(digests(files));
        let making = Making {
            catalog: &self.catalog,
            spec: &self.spec,
            check: self.check.as_ref(),
            kept: Some(&self.current()),
            heeds: Heed::Lasting,
            wanted: &|| match news() {
                News::None => true,
                News::Changed => self.is_still_there(files),
                News::Ended => false,
            },
        };
        making.make(files)
    }

    /// Whether the source has these very files. One that can't be read may have them.
    fn is_still_there(&self, files: &[Arc<FetchedFile>]) -> bool {
        match self.spec.look(&self.catalog, files, Some(FIRST_LOOK)) {
            Ok(found) => digests(&found) == digests(files),
            Err(_) => true,
        }
    }

    fn refuse(&self, version: Version, cause: PolicyError, again: bool) -> Reload {
        let kind = match cause.is_transient() {
            true => Kind::Transient,
            false => Kind::Refused,
        };
        let mut versions = self.versions();
        let replaced = versions.refused.replace(Refused {
            version,
            why: chain(&cause),
            kind,
        });
        if replaced.is_some_and(|it| it.is_taken_back()) {
            self.remember(&mut versions);
        }
        if again && kind == Kind::Transient {
            return Reload::Unchanged;
        }
        Reload::Refused {
            kept: self.current().title(),
            cause,
        }
    }

    /// Whether this version decides. Then what was refused is worth another look when it comes again: the source has something else now.
    fn is_live(&self, version: &Version) -> bool {
        // Under the lock: a version may be taken back at any moment.
        let mut versions = self.versions();
        if self.current().digests() != version.digests {
            return false;
        }
        if versions.refused.take().is_some_and(|it| it.is_taken_back()) {
            self.remember(&mut versions);
        }
        true
    }

    /// Whether this version was refused before, and what to do about it.
    fn refused(&self, version: &Version) -> Option<Kind> {
        let versions = self.versions();
        let refused = versions.refused.as_ref()?;
        let is_same = match refused.is_taken_back() {
            true => refused.version.digests == version.digests,
            false => refused.version == *version,
        };
        is_same.then_some(refused.kind)
    }

    /// Writes down that it was looked, and once a day that the policy is still served.
    fn note_look(&self) {
        let mut versions = self.versions();
        versions.looked = clock::now();
        if versions.looked.since(versions.remembered) > DAY {
            self.remember(&mut versions);
        }
    }

    fn swap(&self, policy: Policy, files: &[Arc<FetchedFile>]) -> Reload {
        let to = policy.title();
        if let Some(store) = &self.catalog.store {
            store.keep(files);
        }
        let mut versions = self.versions();
        let before = self.current.swap(Arc::new(policy));
        self.health.begin();
        let from = before.title();
        let left = std::mem::replace(&mut versions.live, kept(files));
        if !before.is_unavailable() {
            versions.before = Before::Ready(before, left);
        }
        versions.refused = None;
        versions.since = clock::now();
        self.remember(&mut versions);
        drop(versions);
        if let Some(store) = &self.catalog.store {
            store.sweep();
        }
        Reload::Swapped { from, to }
    }
}
