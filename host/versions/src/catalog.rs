//! What the policies of a host share: the sandbox, the clients of remote sources, the store, and the requirements for new versions.

use std::time::Duration;

use backstop_engine::Sandbox;

use crate::signature::Keys;
use crate::source::{FetchOptions, Remotes};
use crate::store::Store;

/// The metric that counts roll-backs, by the policy's name.
pub const ROLLBACKS: &str = "backstop_policy_rollbacks_total";

/// How often S3 and registries are checked by default.
pub const REFRESH: Duration = Duration::from_secs(60);

/// How often a file is checked if its folder does not report changes.
pub const POLL: Duration = Duration::from_secs(5);

/// Shared by all policies of a host; cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The sandbox that they run in.
    pub sandbox: Sandbox,
    /// The clients of S3 and of registries.
    pub remotes: Remotes,
    /// The store of good versions, kept between two starts.
    pub store: Option<Store>,
    /// The store of refusals: versions that could not be compiled or loaded.
    pub refusals: Option<Store>,
    /// The keys that may sign policies. `None` if no signature is required.
    pub keys: Option<Keys>,
    /// How often sources that report no changes are checked.
    pub refresh: Duration,
    /// How often files are checked instead of watching their folders. `None` to watch.
    pub poll: Option<Duration>,
    /// When a failing version is rolled back.
    pub roll_back: RollBack,
}

/// When a failing version is rolled back: after broken decisions on this many messages within the time window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollBack {
    /// Messages with broken decisions; 0 disables automatic roll-back.
    pub broken: u32,
    /// The time window.
    pub within: Duration,
}

impl Default for RollBack {
    fn default() -> Self {
        Self {
            broken: 5,
            within: Duration::from_secs(60),
        }
    }
}

impl Catalog {
    /// `within` is the time limit for a source outside this machine, in addition to those of the clients.
    pub(crate) fn options(&self, within: Option<Duration>) -> FetchOptions<'_> {
        FetchOptions {
            remotes: &self.remotes,
            signature: self.keys.is_some(),
            keys: self.keys.as_ref(),
            within,
            most: self.sandbox.limits().component,
        }
    }
}

/// For policies without required signatures and without a store.
impl From<&Sandbox> for Catalog {
    fn from(sandbox: &Sandbox) -> Self {
        Self {
            sandbox: sandbox.clone(),
            remotes: Remotes::default(),
            store: None,
            refusals: None,
            keys: None,
            refresh: REFRESH,
            poll: None,
            roll_back: RollBack::default(),
        }
    }
}

impl From<&Catalog> for Catalog {
    fn from(catalog: &Catalog) -> Self {
        catalog.clone()
    }
}
