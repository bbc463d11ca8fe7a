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

pub use self::challenge::Challenge;
pub use self::client::Registry;
pub use self::error::RegistryError;
use self::layout::is_digest;
pub use self::layout::{ArtifactKind, Descriptor, Package, PackageError, layer as layer_of};

/// A reference that names its registry. There is no default registry.
pub(super) fn of_a_registry(reference: &str) -> Option<Reference> {
    let (registry, _) = reference.split_once('/')?;
    if !registry.contains(['.', ':']) && registry != "localhost" {
        return None;
    }
    let reference: Reference = reference.parse().ok()?;
    let is_valid = reference.digest().is_none_or(is_digest);
    is_valid.then_some(reference)
}
