//! What the policies of a host have in common: where they run, how they are reached, what is kept of them, and what is asked of a new version.

use std::time::Duration;

use super::Sandbox;
use super::remotes::Remotes;
use super::signature::Keys;
use super::source::FetchOptions;
use super::store::Store;

/// How often S3 and registries are looked at by default.
pub const REFRESH: Duration = Duration::from_secs(60);

/// How often a file is looked at whose folder tells of no changes.
pub const POLL: Duration = Duration::from_secs(5);

/// Shared by all policies of a host; cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Where they run.
    pub sandbox: Sandbox,
    /// The way to S3 and to registries.
    pub remotes: Remotes,
    /// What is kept of good versions between two starts.
    pub store: Option<Store>,
    /// What is known of versions that could not be compiled or loaded, from earlier tries.
    pub refusals: Option<Store>,
    /// Who may sign policies; without keys, no signature is asked for.
    pub keys: Option<Keys>,
    /// How often places that tell of no change are looked at.
    pub refresh: Duration,
    /// How often files are looked at, where their folders are not to be watched.
    pub poll: Option<Duration>,
    /// When a version that breaks at work is taken back.
    pub roll_back: RollBack,
}

/// When a version that breaks at work is taken back: at broken decisions on so many messages within the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollBack {
    /// Messages with broken decisions; 0 is never.
    pub broken: u32,
    /// The time in which they happen.
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
    /// `within` bounds a look at a place outside this machine; without it, the time limits of the clients do.
    pub(super) fn options(&self, within: Option<Duration>) -> FetchOptions<'_> {
        FetchOptions {
            remotes: &self.remotes,
            signature: self.keys.is_some(),
            keys: self.keys.as_ref(),
            within,
            most: self.sandbox.limits().component,
        }
    }
}

/// Policies of which nothing is kept, and which need no signature.
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
