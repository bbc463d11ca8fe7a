//! A policy that may change while it is at work: the version that decides now, and the way to the next.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::text::chain;

use super::{Policy, PolicyDigest, PolicyError, PolicySpec, Sandbox};

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
}

/// The version of a policy that decides now. Decisions under way finish on the version that they began with.
#[derive(Debug)]
pub struct LivePolicy {
    spec: PolicySpec,
    sandbox: Sandbox,
    current: ArcSwap<Policy>,
    refused: Mutex<Option<Refused>>,
}

/// The version that was last found to be no good, so that it is told and tried once.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Version(Vec<PolicyDigest>),
    Unreadable,
}

impl LivePolicy {
    /// Loads the first version.
    pub fn load(sandbox: &Sandbox, spec: PolicySpec) -> Result<Arc<Self>, PolicyError> {
        Ok(Self::beginning_with(spec.load(sandbox)?, sandbox, spec))
    }

    /// As [`LivePolicy::load`]; where that fails, the fallback decides until a good version comes. For a host that must not stop for a bad policy.
    pub fn load_or_stand_in(
        sandbox: &Sandbox,
        spec: PolicySpec,
    ) -> (Arc<Self>, Option<PolicyError>) {
        let (policy, error) = match spec.load(sandbox) {
            Ok(policy) => (policy, None),
            Err(error) => (Policy::absent(sandbox, chain(&error)), Some(error)),
        };
        (Self::beginning_with(policy, sandbox, spec), error)
    }

    fn beginning_with(policy: Policy, sandbox: &Sandbox, spec: PolicySpec) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(policy),
            refused: Mutex::new(None),
            sandbox: sandbox.clone(),
            spec,
        })
    }

    /// The version that decides now.
    pub fn current(&self) -> Arc<Policy> {
        self.current.load_full()
    }

    /// What it is loaded from.
    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// Looks at the files again: a version that is new and good is put in place at once, everything else leaves the old one. Blocks while it compiles; decisions go on meanwhile.
    pub fn reload(&self) -> Reload {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let (version, made) = match self.spec.read() {
            Ok(files) => {
                let digests = files.digests();
                if digests == before.digests() {
                    *refused = None;
                    return Reload::Unchanged;
                }
                let version = Refused::Version(digests);
                if refused.as_ref() == Some(&version) {
                    return Reload::Unchanged;
                }
                (version, self.spec.make(&self.sandbox, &files))
            }
            Err(_) if *refused == Some(Refused::Unreadable) => return Reload::Unchanged,
            Err(cause) => (Refused::Unreadable, Err(cause.into())),
        };
        match made {
            Ok(policy) => {
                *refused = None;
                let to = policy.title();
                self.current.store(Arc::new(policy));
                Reload::Swapped {
                    from: before.title(),
                    to,
                }
            }
            Err(cause) => {
                // What a busy machine may be to blame for is tried again.
                *refused = (!cause.may_pass()).then_some(version);
                Reload::Refused {
                    kept: before.title(),
                    cause,
                }
            }
        }
    }
}
