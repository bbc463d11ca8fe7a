//! Update checks: a new version that passes validation is activated; otherwise the active one stays.

use std::sync::Arc;

use backstop_core::text::chain;
use backstop_engine::Policy;

use super::pipeline::{Files, Pipeline};
use super::policy::{FETCH_TIMEOUT, LivePolicy};
use super::refusals::Applicable;
use super::version::{NewestSignatures, RefusalKind, Version, digests};
use crate::error::PolicyError;
use crate::source::FetchedFile;

/// The outcome of an update check.
#[derive(Debug)]
pub enum Reload {
    /// There is no new version, or only one that was refused before.
    Unchanged,
    /// A new version is active.
    Swapped {
        /// The previous version, for people.
        from: String,
        /// The active version, for people.
        to: String,
    },
    /// A new version was refused, and the active one stays. Reported once for each version.
    Refused {
        /// The version that stays.
        kept: String,
        /// Why.
        cause: PolicyError,
    },
    /// The source can't be reached or read, and the active version stays. Reported once until the source can be read again.
    SourceUnreachable {
        /// The version that stays.
        kept: String,
        /// Why.
        cause: PolicyError,
    },
    /// The source can be read again, and has nothing new.
    SourceRecovered {
        /// The version that stays.
        kept: String,
    },
}

/// What happened while a version was being compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing.
    None,
    /// The source may have another version.
    Changed,
    /// The host is shutting down.
    ShuttingDown,
}

impl LivePolicy {
    /// Checks the source for a new version, and activates it if it passes validation. Blocks while it fetches and compiles; decisions continue.
    pub fn reload(&self) -> Reload {
        self.reload_unless(&|| News::None)
    }

    /// Like [`LivePolicy::reload`]; `news` is called many times a second while a child process compiles. A version is abandoned for a newer one, and at shutdown.
    pub(crate) fn reload_unless(&self, news: &dyn Fn() -> News) -> Reload {
        let mut fetched = self.state.reload_turn();
        loop {
            if let Some(reload) = self.reload_once(&mut fetched, news) {
                return reload;
            }
        }
    }

    /// The outcome of one check. `None` if the version was abandoned for a newer one.
    fn reload_once(&self, fetched: &mut Files, news: &dyn Fn() -> News) -> Option<Reload> {
        self.state.check_started();
        let newest = self.state.newest_signatures();
        let files = match self.pipeline().fetch(fetched, &newest, None) {
            Ok(files) => files,
            Err(cause) if cause.is_unreachable() => {
                return Some(self.source_unreachable(cause.into()));
            }
            Err(cause) => return Some(self.refuse_unread(cause.into())),
        };
        let has_recovered = self.state.source_reachable();
        let nothing_new = || {
            let kept = self.current().title();
            if has_recovered {
                Reload::SourceRecovered { kept }
            } else {
                Reload::Unchanged
            }
        };
        fetched.clone_from(&files);
        let check = self.check.as_ref().and_then(|check| (check.digest)());
        let version = Version::of_files(&files, check);
        if self.state.is_active(&version) {
            return Some(nothing_new());
        }
        let is_retry = match self.state.refusal_of(&version) {
            Some(RefusalKind::Invalid | RefusalKind::RolledBack) => return Some(nothing_new()),
            Some(RefusalKind::Transient) => true,
            None => false,
        };
        let loaded = match self.pipeline().check_age(&files, &newest) {
            Ok(()) => self.load_version(&files, news),
            Err(too_old) => Err(too_old),
        };
        match loaded {
            Ok(policy) => {
                let to = policy.title();
                let signed = self.pipeline().signed_at(&files);
                let from = self.state.activate(policy, &files, &signed).title();
                Some(Reload::Swapped { from, to })
            }
            Err(cause) if cause.is_unwanted() => match news() {
                News::ShuttingDown => Some(Reload::Unchanged),
                News::None | News::Changed => None,
            },
            Err(cause) => Some(self.refuse(version, cause, is_retry)),
        }
    }

    /// Loads the policy of these files, unless the source changes before it is compiled.
    fn load_version(
        &self,
        files: &[Arc<FetchedFile>],
        news: &dyn Fn() -> News,
    ) -> Result<Policy, PolicyError> {
        let _compiling = self.state.compiling(&digests(files));
        let pipeline = self.pipeline();
        let wanted = || match news() {
            News::None => true,
            News::Changed => still_has(&pipeline, files, &self.state.newest_signatures()),
            News::ShuttingDown => false,
        };
        pipeline.run(files, Some(&self.current()), Applicable::Permanent, &wanted)
    }

    fn source_unreachable(&self, cause: PolicyError) -> Reload {
        if self.state.source_unreachable(chain(&cause)) {
            return Reload::Unchanged;
        }
        let kept = self.current().title();
        Reload::SourceUnreachable { kept, cause }
    }

    /// Refuses what can't be a version, such as a pipe or a file that is too large. Reported once for each reason.
    fn refuse_unread(&self, cause: PolicyError) -> Reload {
        self.state.source_reachable();
        if !self.state.refuse_unread(chain(&cause)) {
            return Reload::Unchanged;
        }
        let kept = self.current().title();
        Reload::Refused { kept, cause }
    }

    fn refuse(&self, version: Version, cause: PolicyError, is_retry: bool) -> Reload {
        let kind = if cause.is_transient() {
            RefusalKind::Transient
        } else {
            RefusalKind::Invalid
        };
        self.state.refuse(version, chain(&cause), kind);
        if is_retry && kind == RefusalKind::Transient {
            return Reload::Unchanged;
        }
        let kept = self.current().title();
        Reload::Refused { kept, cause }
    }
}

/// Whether the source still has these files. If it can't be read, it may have them.
fn still_has(
    pipeline: &Pipeline<'_>,
    files: &[Arc<FetchedFile>],
    newest: &NewestSignatures,
) -> bool {
    match pipeline.fetch(files, newest, Some(FETCH_TIMEOUT)) {
        Ok(found) => digests(&found) == digests(files),
        Err(_) => true,
    }
}
