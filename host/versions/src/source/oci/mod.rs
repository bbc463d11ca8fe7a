//! Policies in OCI registries: any host, `wkg` and other tools can read what is pushed there. Without the feature `oci`, no name means such a policy.
//!
//! The signature of a policy is an artifact of its own, found by the digest of the policy's file.

#[cfg(feature = "oci")]
mod challenge;
#[cfg(feature = "oci")]
mod client;
#[cfg(feature = "oci")]
mod credentials;
#[cfg(feature = "oci")]
mod error;
#[cfg(feature = "oci")]
mod layout;
#[cfg(feature = "oci")]
mod push;
#[cfg(feature = "oci")]
mod reader;
#[cfg(feature = "oci")]
mod session;
#[cfg(feature = "oci")]
mod trust;
#[cfg(not(feature = "oci"))]
mod without;

#[cfg(feature = "oci")]
pub use oci_spec::distribution::Reference;

#[cfg(feature = "oci")]
pub use self::client::{Artifact, Registry};
#[cfg(feature = "oci")]
pub use self::error::RegistryError;
#[cfg(feature = "oci")]
pub(super) use self::layout::is_digest;
#[cfg(feature = "oci")]
pub use self::layout::{Package, PackageError};
#[cfg(not(feature = "oci"))]
pub use self::without::{Reference, RegistryError};
#[cfg(feature = "oci")]
use super::fetched::FetchedFile;

/// The artifact and its signature, unless its manifest still has the digest `tag`.
#[cfg(feature = "oci")]
pub(super) async fn fetch(
    registry: &Registry,
    reference: &Reference,
    tag: Option<&str>,
    with_signature: bool,
    most: usize,
) -> Result<Option<FetchedFile>, RegistryError> {
    if let Some(tag) = tag
        && registry.digest(reference).await? == tag
    {
        return Ok(None);
    }
    let artifact = registry.fetch(reference, with_signature, most).await?;
    Ok(Some(FetchedFile::new(
        artifact.file,
        artifact.signature,
        Some(artifact.manifest),
    )))
}
