//! The ways back: by itself, when a version breaks at work, and by hand.

use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;

use serde::{Deserialize, Serialize};

use super::super::store::{PersistedState, RolledBackVersion, StoredFile};
use super::super::{Policy, ROLLBACKS};
use super::LivePolicy;
use super::initial::name_of;
use super::load::{Heed, Making};
use super::versions::{Before, Kind, Refused, Version, Versions};
use backstop_core::clock;
use backstop_core::text::chain;

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
pub enum NotRolledBack {
    /// The version that decides has none before it, or none that is still good.
    #[error("there is no version before {now} to go back to")]
    NoPreviousVersion {
        /// The version that decides.
        now: String,
    },
    /// While the version before was compiled, another one was put in place of the one that was to be taken back.
    #[error("{now} has been put in place meanwhile, and stays")]
    Replaced {
        /// The version that decides.
        now: String,
    },
}

impl LivePolicy {
    /// A decision of this version on a message broke: after so many messages in a time, the version before comes back by itself.
    pub fn record_failure(self: &Arc<Self>, version: &Arc<Policy>, message_id: &str) {
        if version.is_unavailable() || !Arc::ptr_eq(version, &self.current()) {
            return;
        }
        let Some(count) = self.health.record_failure(message_id, clock::instant()) else {
            return;
        };
        // Somebody takes it back already.
        if let Err(TryLockError::WouldBlock) = self.rolling_back.try_lock() {
            return;
        }
        // Busy: it is being swapped.
        let is_stored = match self.versions.try_lock() {
            Ok(versions) => matches!(versions.before, Before::Stored(_)),
            Err(_) => return,
        };
        if !is_stored {
            return self.take_back_broken(version, count);
        }
        // It has to be compiled first, and the message does not wait for that.
        let (live, version) = (Arc::clone(self), Arc::clone(version));
        let started = thread::Builder::new()
            .name("rollback".to_owned())
            .spawn(move || live.take_back_broken(&version, count));
        if let Err(error) = started {
            tracing::error!(%error, "a version of the policy that breaks can't be taken back");
        }
    }

    fn take_back_broken(&self, version: &Arc<Policy>, count: u32) {
        let why = format!(
            "broken decisions on {count} messages within {:?}",
            self.catalog.roll_back.within
        );
        match self.take_back(Some(version), &why) {
            Ok(RolledBack { from, to }) => tracing::error!(
                from,
                to,
                "a version of the policy is taken back after {why}: it is not tried again until its source changes"
            ),
            Err(NotRolledBack::Replaced { now }) => tracing::info!(
                from = version.title(),
                now,
                "a version of the policy is not taken back after {why}: another one decides already"
            ),
            Err(NotRolledBack::NoPreviousVersion { .. }) => {}
        }
    }

    /// Takes the version that decides back, for the good one before it. It is not tried again until the source has another. Blocks while the one before has to be compiled; status and new versions do not wait for that.
    pub fn roll_back(&self, why: &str) -> Result<RolledBack, NotRolledBack> {
        self.take_back(None, why)
    }

    /// `only` is the version that is to be taken back, if it must be that one.
    fn take_back(
        &self,
        only: Option<&Arc<Policy>>,
        why: &str,
    ) -> Result<RolledBack, NotRolledBack> {
        // One at a time. Decisions that broke meanwhile don't wait while one of them has the version before compiled.
        let _alone = match (self.rolling_back.try_lock(), only) {
            (Ok(alone), _) => alone,
            (Err(TryLockError::Poisoned(poisoned)), _) => poisoned.into_inner(),
            (Err(TryLockError::WouldBlock), Some(_)) => return Err(self.none_before()),
            (Err(TryLockError::WouldBlock), None) => {
                let alone = self.rolling_back.lock();
                alone.unwrap_or_else(PoisonError::into_inner)
            }
        };
        let versions = self.versions();
        let now = self.current();
        if only.is_some_and(|only| !Arc::ptr_eq(only, &now)) {
            return Err(self.none_before());
        }
        let stored = match &versions.before {
            Before::None => return Err(self.none_before()),
            Before::Ready(policy, kept) => {
                let (policy, kept) = (Arc::clone(policy), kept.clone());
                return Ok(self.activate_before(versions, &now, policy, kept, why));
            }
            Before::Stored(kept) => kept.clone(),
        };
        // Compiling takes its time: whoever wants to know or to swap the version does not wait for it.
        drop(versions);
        let restored = self.restored(&stored, &now);
        let versions = self.versions();
        if !Arc::ptr_eq(&now, &self.current()) {
            return Err(NotRolledBack::Replaced {
                now: self.current().title(),
            });
        }
        match restored {
            Some(policy) => Ok(self.activate_before(versions, &now, Arc::new(policy), stored, why)),
            None => {
                // Tried again after as many messages, and not at each.
                self.health.begin();
                Err(self.none_before())
            }
        }
    }

    fn none_before(&self) -> NotRolledBack {
        NotRolledBack::NoPreviousVersion {
            now: self.current().title(),
        }
    }

    /// Puts the version before in place of `now`.
    fn activate_before(
        &self,
        mut versions: MutexGuard<'_, Versions>,
        now: &Policy,
        policy: Arc<Policy>,
        kept: Vec<StoredFile>,
        why: &str,
    ) -> RolledBack {
        let to = policy.title();
        self.current.store(policy);
        self.health.begin();
        versions.before = Before::None;
        versions.live = kept;
        versions.since = clock::now();
        versions.refused = Some(Refused {
            version: Version::at_work(now.digests()),
            why: why.to_owned(),
            kind: Kind::RolledBack,
        });
        self.remember(&mut versions);
        drop(versions);
        metrics::counter!(ROLLBACKS, "policy" => self.spec.title()).increment(1);
        RolledBack {
            from: now.title(),
            to,
        }
    }

    /// The version of these files, while `now` is the one that decides.
    fn restored(&self, version: &[StoredFile], now: &Arc<Policy>) -> Option<Policy> {
        let files = self.catalog.store.as_ref()?.files_of(version)?;
        let making = Making {
            catalog: &self.catalog,
            spec: &self.spec,
            check: self.check.as_ref(),
            kept: Some(now),
            heeds: Heed::Lasting,
            wanted: &|| Arc::ptr_eq(now, &self.current()),
        };
        match making.make(&files) {
            Ok(policy) => Some(policy),
            Err(cause) if cause.is_unwanted() => None,
            Err(cause) => {
                tracing::error!("the version before is no longer good: {}", chain(&cause));
                None
            }
        }
    }

    pub(super) fn remember(&self, versions: &mut Versions) {
        versions.remembered = clock::now();
        let Some(store) = &self.catalog.store else {
            return;
        };
        if versions.live.is_empty() {
            return;
        }
        let taken_back = versions.refused.as_ref().filter(|it| it.is_taken_back());
        let known = PersistedState {
            live: versions.live.clone(),
            before: versions.before.kept().to_vec(),
            taken_back: taken_back.map(|refused| RolledBackVersion {
                version: refused.version.digests.clone(),
                why: refused.why.clone(),
            }),
        };
        store.remember(&self.spec, name_of(self.check.as_ref()), &known);
    }
}
