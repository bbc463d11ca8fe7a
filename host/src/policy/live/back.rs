//! The ways back: by itself, when a version breaks at work, and by hand.

use std::sync::{Arc, TryLockError};
use std::thread;

use serde::{Deserialize, Serialize};

use super::super::Policy;
use super::super::store::{Kept, Known, TakenBack};
use super::LivePolicy;
use super::beginning::name_of;
use super::making::{Heeds, Making};
use super::versions::{Before, Kind, Refused, Version, Versions};
use crate::clock;
use crate::telemetry;
use crate::text::chain;

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

impl LivePolicy {
    /// A decision of this version on a message broke: after so many messages in a time, the version before comes back by itself.
    pub(crate) fn broke(self: &Arc<Self>, version: &Arc<Policy>, message_id: &str) {
        if version.is_absent() || !Arc::ptr_eq(version, &self.current()) {
            return;
        }
        let Some(count) = self.health.broke(message_id, clock::instant()) else {
            return;
        };
        // Busy: somebody takes it back already, or swaps it.
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
            .name("roll-back".to_owned())
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
        if let Ok(RolledBack { from, to }) = self.take_back(Some(version), &why) {
            tracing::error!(
                from,
                to,
                "a version of the policy is taken back after {why}: it is not tried again until its source changes"
            );
        }
    }

    /// Takes the version that decides back, for the good one before it. It is not tried again until the source has another.
    pub fn roll_back(&self, why: &str) -> Result<RolledBack, NoneBefore> {
        self.take_back(None, why)
    }

    /// `only` is the version that is to be taken back, if it must be that one.
    fn take_back(&self, only: Option<&Arc<Policy>>, why: &str) -> Result<RolledBack, NoneBefore> {
        let none = || NoneBefore {
            now: self.current().title(),
        };
        // Decisions that broke meanwhile don't wait while one of them has the version before compiled.
        let mut versions = match (self.versions.try_lock(), only) {
            (Ok(versions), _) => versions,
            (Err(TryLockError::Poisoned(poisoned)), _) => poisoned.into_inner(),
            (Err(TryLockError::WouldBlock), Some(_)) => return Err(none()),
            (Err(TryLockError::WouldBlock), None) => self.versions(),
        };
        let now = self.current();
        if only.is_some_and(|only| !Arc::ptr_eq(only, &now)) {
            return Err(none());
        }
        let (policy, live) = match std::mem::replace(&mut versions.before, Before::None) {
            Before::None => return Err(none()),
            Before::Ready(policy, kept) => (policy, kept),
            Before::Stored(kept) => {
                let Some(policy) = self.restored(&kept, &now) else {
                    versions.before = Before::Stored(kept);
                    // Tried again after as many messages, and not at each.
                    self.health.begin();
                    return Err(none());
                };
                (Arc::new(policy), kept)
            }
        };
        let to = policy.title();
        self.current.store(policy);
        self.health.begin();
        versions.live = live;
        versions.since = clock::now();
        versions.refused = Some(Refused {
            version: Version::at_work(now.digests()),
            why: why.to_owned(),
            kind: Kind::TakenBack,
        });
        self.remember(&mut versions);
        telemetry::rolled_back(&self.spec.title());
        Ok(RolledBack {
            from: now.title(),
            to,
        })
    }

    fn restored(&self, version: &[Kept], now: &Policy) -> Option<Policy> {
        let files = self.catalog.store.as_ref()?.files_of(version)?;
        let making = Making {
            catalog: &self.catalog,
            spec: &self.spec,
            check: self.check.as_ref(),
            kept: Some(now),
            heeds: Heeds::Lasting,
            wanted: &|| true,
        };
        let made = making.make(&files);
        made.map_err(|cause| {
            tracing::error!("the version before is no longer good: {}", chain(&cause));
        })
        .ok()
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
}
