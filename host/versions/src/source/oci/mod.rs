//! Policies in OCI registries: any host, `wkg` and other tools can read what is pushed there. Without the feature `oci`, no name means such a policy.
//!
//! The signature of a policy is an artifact of its own, found by the digest of the policy's file.

mod artifact;
mod challenge;
mod client;
mod credentials;
mod error;
mod layout;
mod push;
mod reader;
mod trust;

pub use oci_spec::distribution::Reference;

use super::error::SourceError;
use super::name::Location;

pub use self::client::Registry;
pub use self::error::RegistryError;
use self::layout::is_digest;
pub use self::layout::{Package, PackageError};

/// The artifact with this reference, which names its registry: there is no default registry. `name` is that of the policy.
pub(super) fn location(name: &str, reference: &str) -> Result<Location, SourceError> {
    let found = of_a_registry(reference).map(Location::Registry);
    found.ok_or_else(|| SourceError::Name {
        name: name.to_owned(),
        expected: "an artifact such as oci://registry.example.com/policies/orders:1.2, which may be pinned with @sha256: and the digest of its manifest",
    })
}

fn of_a_registry(reference: &str) -> Option<Reference> {
    let (registry, _) = reference.split_once('/')?;
    if !registry.contains(['.', ':']) && registry != "localhost" {
        return None;
    }
    let reference: Reference = reference.parse().ok()?;
    let is_valid = reference.digest().is_none_or(is_digest);
    is_valid.then_some(reference)
}
