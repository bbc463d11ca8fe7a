//! A policy that may change while it decides.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Policy;

use super::pipeline::{Check, Pipeline};
use super::state::State;
use super::status::Status;
use crate::catalog::Catalog;
use crate::spec::PolicySpec;

/// The time limit for a source outside this machine if another version can be used.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(4);

/// A policy whose active version may change while it decides. A decision ends on the version that it started with.
pub struct LivePolicy {
    pub(super) spec: PolicySpec,
    pub(super) catalog: Catalog,
    pub(super) check: Option<Check>,
    pub(super) state: State,
}

backstop_core::shown!(LivePolicy, policy => spec = policy.spec, active = policy.current());

impl LivePolicy {
    /// The active version.
    pub fn current(&self) -> Arc<Policy> {
        self.state.active()
    }

    /// The policy as the operator names it.
    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// What it shares with other policies.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether it never changes, because it is loaded and pinned.
    pub fn is_settled(&self) -> bool {
        self.spec.is_pinned() && !self.current().is_unavailable()
    }

    /// Whether the next update check should come soon: the source could not be read, a refused version may pass later, or there is no version yet.
    pub fn is_unsettled(&self) -> bool {
        self.state.is_unreachable()
            || self.state.has_transient_refusal()
            || self.current().is_unavailable()
    }

    /// Whether the source could not be read at the last check.
    pub fn is_unreachable(&self) -> bool {
        self.state.is_unreachable()
    }

    /// A report about its versions.
    pub fn status(&self) -> Status {
        self.state.status(&self.spec)
    }

    pub(super) fn pipeline(&self) -> Pipeline<'_> {
        Pipeline {
            catalog: &self.catalog,
            spec: &self.spec,
            check: self.check.as_ref(),
        }
    }
}
