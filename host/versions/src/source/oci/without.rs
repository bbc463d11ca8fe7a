//! Types without values, for a build without the feature `oci`.

use std::fmt;

/// Why a request to a registry fails: never, since this build sends none.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {}

/// The name of an artifact: there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {}

impl Reference {
    /// The digest of the manifest.
    pub fn digest(&self) -> Option<&str> {
        match *self {}
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// None, since this build can't fetch an artifact.
pub(super) fn of_a_registry(_: &str) -> Option<Reference> {
    None
}
