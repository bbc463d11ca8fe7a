//! The state of a live policy: the active version, the one before it, the one that was refused, and what the last update check found.
//!
//! This is the only file that locks. There are three locks, always taken in this order:
//!
//! 1. a turn, held for as long as files are fetched and compiled: one for update checks ([`State::reload_turn`]) and one for roll-backs ([`State::roll_back_turn`]);
//! 2. `details`, held for moments and while the state is written to the store;
//! 3. `health`, held for moments.
//!
//! Decisions read the active version without a lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use arc_swap::ArcSwap;
use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_core::text::chain;
use backstop_engine::{Policy, PolicyDigest};

use super::status::{Compiling, Status};
use super::version::{
    NewestSignatures, Previous, RefusalKind, Refused, Restore, Restored, RollBackCost, Version,
    digests_of, latest, short, stored,
};
use crate::catalog::RollBack;
use crate::error::PolicyError;
use crate::health::{Break, Health};
use crate::source::FetchedFile;
use crate::spec::PolicySpec;
use crate::store::{PersistedState, RolledBackVersion, Store, StoredFile};

/// How often the state of a policy is written to the store even if it does not change, so that it is not removed as unused.
const DAY: Duration = Duration::from_secs(86_400);

/// The files that the last update check found, for sources that do not report changes.
pub(super) type ReloadTurn<'a> = MutexGuard<'a, Vec<Arc<FetchedFile>>>;

/// The state of a live policy.
pub(super) struct State {
    active: ArcSwap<Policy>,
    fetched: Mutex<Vec<Arc<FetchedFile>>>,
    rolling_back: Mutex<()>,
    details: Mutex<Details>,
    health: Mutex<Health>,
    /// Whether answers count for the health: see [`Health::counts_answers`]. Usually they do not, and a decision takes no lock.
    counts_answers: AtomicBool,
    place: StorePlace,
}

/// The place of the state in the store.
pub(super) struct StorePlace {
    pub(super) store: Option<Store>,
    /// The policy's identity in the store.
    pub(super) key: String,
}

struct Details {
    /// The files of the active version.
    files: Vec<StoredFile>,
    previous: Previous,
    refused: Option<Refused>,
    /// Why the source can't be read, if so.
    unreachable: Option<String>,
    active_since: Timestamp,
    checked: Timestamp,
    persisted: Timestamp,
    compiling: Option<Compiling>,
    /// For each part, when the newest version that was active was signed.
    newest_signatures: Vec<Option<Timestamp>>,
}

/// The version that a policy starts with.
pub(super) struct InitialVersion {
    pub(super) policy: Policy,
    pub(super) files: Vec<Arc<FetchedFile>>,
    /// Why it is not the version of the source, if it is not.
    pub(super) instead: Option<PolicyError>,
}

impl State {
    /// `signed` says when the parts of the first version were signed.
    pub(super) fn new(
        initial: InitialVersion,
        signed: &[Option<Timestamp>],
        persisted: PersistedState,
        limit: RollBack,
        place: StorePlace,
    ) -> Self {
        let InitialVersion {
            policy,
            files,
            instead,
        } = initial;
        let active = stored(&files);
        // The same files, even if the source has another tag for them now.
        let is_same = digests_of(&persisted.live) == digests_of(&active);
        let previous = match (is_same, persisted.before.is_empty()) {
            // The same version as in the earlier run, so the previous version of that run is valid.
            (true, false) => Previous::Stored(persisted.before),
            (false, _) if !persisted.live.is_empty() => Previous::Stored(persisted.live),
            (true | false, _) => Previous::None,
        };
        let refused = persisted.taken_back.map(|rolled_back| Refused {
            version: Version::of_digests(rolled_back.version),
            reason: rolled_back.why,
            kind: RefusalKind::RolledBack,
        });
        let now = clock::now();
        let state = Self {
            active: ArcSwap::from_pointee(policy),
            // Files of an earlier run may differ from those that the source has now.
            fetched: Mutex::new(if instead.is_none() { files } else { Vec::new() }),
            rolling_back: Mutex::default(),
            details: Mutex::new(Details {
                files: active,
                previous,
                refused,
                unreachable: match &instead {
                    Some(PolicyError::Source(why)) if why.is_unreachable() => Some(chain(why)),
                    Some(_) | None => None,
                },
                active_since: now,
                checked: now,
                persisted: now,
                compiling: None,
                newest_signatures: latest(&persisted.newest_signatures, signed),
            }),
            health: Mutex::new(Health::new(limit)),
            counts_answers: AtomicBool::new(false),
            place,
        };
        state.persist(&mut state.details());
        state.place.sweep();
        state
    }

    /// The active version.
    pub(super) fn active(&self) -> Arc<Policy> {
        self.active.load_full()
    }

    /// A report about the versions; `spec` is what they are loaded from.
    pub(super) fn status(&self, spec: &PolicySpec) -> Status {
        let details = self.details();
        let active = self.active();
        let refused = details.refused.as_ref();
        Status {
            sources: spec.sources().map(ToString::to_string).collect(),
            live: active.parts().collect(),
            title: active.title(),
            since: details.active_since,
            before: details.previous.title(spec),
            refused: refused.map(ToString::to_string),
            compiling: details.compiling.clone(),
            checked: details.checked,
            unreachable: details.unreachable.clone(),
        }
    }

    /// Waits until no other update check runs. The guard holds the files that the last one found.
    pub(super) fn reload_turn(&self) -> ReloadTurn<'_> {
        lock(&self.fetched)
    }

    /// Waits until no other roll-back runs. Without `wait`, `None` if one runs.
    pub(super) fn roll_back_turn(&self, wait: bool) -> Option<MutexGuard<'_, ()>> {
        match self.rolling_back.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => wait.then(|| lock(&self.rolling_back)),
        }
    }

    /// When the parts were signed, of the versions that were active.
    pub(super) fn newest_signatures(&self) -> NewestSignatures {
        let details = self.details();
        NewestSignatures::of(&details.files, &details.newest_signatures)
    }

    /// Whether the source could not be read at the last check.
    pub(super) fn is_unreachable(&self) -> bool {
        self.details().unreachable.is_some()
    }

    /// Whether the last refused version may pass later.
    pub(super) fn has_transient_refusal(&self) -> bool {
        let details = self.details();
        let refused = details.refused.as_ref();
        refused.is_some_and(|it| it.kind == RefusalKind::Transient)
    }

    /// Records the time of an update check and, once a day, that the policy is still in use.
    pub(super) fn check_started(&self) {
        let mut details = self.details();
        details.checked = clock::now();
        if details.checked.since(details.persisted) > DAY {
            self.persist(&mut details);
        }
    }

    /// Records that the source can't be read. Returns whether it could not be read before.
    pub(super) fn source_unreachable(&self, reason: String) -> bool {
        self.details().unreachable.replace(reason).is_some()
    }

    /// Records that the source can be read. Returns whether it could not be read before.
    pub(super) fn source_reachable(&self) -> bool {
        self.details().unreachable.take().is_some()
    }

    /// Whether this version is active. If so, the refused version is forgotten: the source has replaced it, so it deserves another try if it returns.
    pub(super) fn is_active(&self, version: &Version) -> bool {
        // Under the lock: a roll-back may happen at any moment.
        let mut details = self.details();
        if self.active().digests() != version.digests {
            return false;
        }
        if details.refused.take().is_some_and(|it| it.is_rolled_back()) {
            self.persist(&mut details);
        }
        true
    }

    /// How this version was refused, if it is the last refused one.
    pub(super) fn refusal_of(&self, version: &Version) -> Option<RefusalKind> {
        let details = self.details();
        let refused = details.refused.as_ref()?;
        let is_same = if refused.is_rolled_back() {
            refused.version.digests == version.digests
        } else {
            refused.version == *version
        };
        is_same.then_some(refused.kind)
    }

    /// Records that this version was refused.
    pub(super) fn refuse(&self, version: Version, reason: String, kind: RefusalKind) {
        let mut details = self.details();
        let replaced = details.refused.replace(Refused {
            version,
            reason,
            kind,
        });
        if replaced.is_some_and(|it| it.is_rolled_back()) {
            self.persist(&mut details);
        }
    }

    /// Records that the source has something that can't be a version. Returns whether the reason is new.
    pub(super) fn refuse_unread(&self, reason: String) -> bool {
        let unread = Version::of_digests(Vec::new());
        let details = self.details();
        let last = details.refused.as_ref();
        let is_known = last.is_some_and(|it| it.version == unread && it.reason == reason);
        drop(details);
        if !is_known {
            self.refuse(unread, reason, RefusalKind::Invalid);
        }
        !is_known
    }

    /// Shows these files in the status as being compiled, until the guard is dropped.
    pub(super) fn compiling(&self, digests: &[PolicyDigest]) -> CompilingGuard<'_> {
        self.details().compiling = Some(Compiling {
            version: short(digests),
            since: clock::now(),
        });
        CompilingGuard(self)
    }

    /// Makes this version the active one; `signed` is when its parts were signed. Returns the version that was active, which is now the previous one.
    pub(super) fn activate(
        &self,
        policy: Policy,
        files: &[Arc<FetchedFile>],
        signed: &[Option<Timestamp>],
    ) -> Arc<Policy> {
        if let Some(store) = &self.place.store {
            store.keep(files);
        }
        let mut details = self.details();
        let replaced = self.switch_to(Arc::new(policy));
        let replaced_files = std::mem::replace(&mut details.files, stored(files));
        if !replaced.is_unavailable() {
            details.previous = Previous::Loaded(Arc::clone(&replaced), replaced_files);
        }
        details.refused = None;
        details.newest_signatures = latest(&details.newest_signatures, signed);
        details.active_since = clock::now();
        self.persist(&mut details);
        drop(details);
        self.place.sweep();
        replaced
    }

    /// Counts a message on which this version broke. Returns why it is to be rolled back, if it is and the version is still active.
    pub(super) fn record_break(
        &self,
        version: &Arc<Policy>,
        message_id: &str,
        how: Break,
    ) -> Option<String> {
        let mut health = self.health();
        // Under the lock: another version may become active at any moment.
        if !self.counts(version) {
            return None;
        }
        let reason = health.record_break(message_id, how, clock::instant());
        self.counts_answers
            .store(health.counts_answers(), Ordering::Relaxed);
        reason
    }

    /// Counts a message that this version answered, if there are breaks to compare it with.
    pub(super) fn record_answer(&self, version: &Arc<Policy>, message: impl FnOnce() -> u64) {
        if !self.counts_answers.load(Ordering::Relaxed) {
            return;
        }
        let mut health = self.health();
        if self.counts(version) {
            let counts = health.record_answer(message(), clock::instant());
            self.counts_answers.store(counts, Ordering::Relaxed);
        }
    }

    /// Whether this version is active and can break.
    pub(super) fn counts(&self, version: &Arc<Policy>) -> bool {
        !version.is_unavailable() && Arc::ptr_eq(version, &self.active())
    }

    /// The cost of a roll-back now. Does not block.
    pub(super) fn roll_back_cost(&self) -> RollBackCost {
        if let Err(TryLockError::WouldBlock) = self.rolling_back.try_lock() {
            return RollBackCost::Busy;
        }
        match self.details.try_lock().as_deref() {
            Ok(Details {
                previous: Previous::Stored(_),
                ..
            }) => RollBackCost::Compile,
            Ok(_) => RollBackCost::None,
            Err(_) => RollBackCost::Busy,
        }
    }

    /// Activates the previous version if it is loaded; otherwise returns its files. If `only` is given, it must be the active version. The caller holds a [`roll_back_turn`](Self::roll_back_turn).
    pub(super) fn roll_back(&self, only: Option<&Arc<Policy>>, reason: &str) -> Restore {
        let details = self.details();
        let active = self.active();
        if only.is_some_and(|only| !Arc::ptr_eq(only, &active)) {
            return Restore::NoPrevious;
        }
        match &details.previous {
            Previous::None => Restore::NoPrevious,
            Previous::Stored(files) => Restore::Load {
                files: files.clone(),
                active,
            },
            Previous::Loaded(policy, files) => {
                let (policy, files) = (Arc::clone(policy), files.clone());
                Restore::Done(self.activate_previous(details, active, policy, files, reason))
            }
        }
    }

    /// Activates the previous version, which the caller has loaded, unless a version other than `active` has become the active one.
    pub(super) fn restore(
        &self,
        active: Arc<Policy>,
        policy: Policy,
        files: Vec<StoredFile>,
        reason: &str,
    ) -> Option<Restored> {
        let details = self.details();
        if !Arc::ptr_eq(&active, &self.active()) {
            return None;
        }
        Some(self.activate_previous(details, active, Arc::new(policy), files, reason))
    }

    /// Counts failures of the active version from zero again.
    pub(super) fn reset_health(&self) {
        self.health().clear();
    }

    fn activate_previous(
        &self,
        mut details: MutexGuard<'_, Details>,
        from: Arc<Policy>,
        to: Arc<Policy>,
        files: Vec<StoredFile>,
        reason: &str,
    ) -> Restored {
        self.switch_to(Arc::clone(&to));
        details.previous = Previous::None;
        details.files = files;
        details.active_since = clock::now();
        details.refused = Some(Refused {
            version: Version::of_digests(from.digests()),
            reason: reason.to_owned(),
            kind: RefusalKind::RolledBack,
        });
        self.persist(&mut details);
        Restored { from, to }
    }

    /// Makes this policy the active one, whose health counts from zero: none of its own breaks is forgotten, and none of another version counts for it. Returns the one before.
    fn switch_to(&self, policy: Arc<Policy>) -> Arc<Policy> {
        let mut health = self.health();
        let replaced = self.active.swap(policy);
        health.clear();
        replaced
    }

    fn persist(&self, details: &mut Details) {
        details.persisted = clock::now();
        let Some(store) = &self.place.store else {
            return;
        };
        if details.files.is_empty() {
            return;
        }
        let rolled_back = details.refused.as_ref().filter(|it| it.is_rolled_back());
        let state = PersistedState {
            live: details.files.clone(),
            before: details.previous.files().to_vec(),
            taken_back: rolled_back.map(|refused| RolledBackVersion {
                version: refused.version.digests.clone(),
                why: refused.reason.clone(),
            }),
            newest_signatures: details.newest_signatures.clone(),
        };
        store.persist(&self.place.key, &state);
    }

    fn details(&self) -> MutexGuard<'_, Details> {
        lock(&self.details)
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        lock(&self.health)
    }
}

/// See [`State::compiling`].
pub(super) struct CompilingGuard<'a>(&'a State);

impl Drop for CompilingGuard<'_> {
    fn drop(&mut self) {
        self.0.details().compiling = None;
    }
}

impl StorePlace {
    fn sweep(&self) {
        if let Some(store) = &self.store {
            store.sweep();
        }
    }
}
