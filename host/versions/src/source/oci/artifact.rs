//! Policies and signatures as artifacts of a registry.

use oci_spec::distribution::Reference;

use super::error::RegistryError;
use super::layout::{self, ArtifactKind, Descriptor, Package};
use super::reader::Session;
use crate::signature;
use backstop_core::text::one_line;

impl Session {
    /// A policy's file, after the digest of its manifest.
    pub(super) async fn policy(
        &self,
        reference: &Reference,
        most: usize,
    ) -> Result<(String, Vec<u8>), RegistryError> {
        let (digest, layer) = self.layer(reference, ArtifactKind::Policy).await?;
        Ok((digest, self.blob(reference, &layer, most).await?))
    }

    /// The signature of a policy's file, if there is one.
    pub(super) async fn signature(
        &self,
        reference: &Reference,
        file: &[u8],
    ) -> Result<Option<String>, RegistryError> {
        let reference = layout::signature_of(reference, file);
        let layer = match self.layer(&reference, ArtifactKind::Signature).await {
            Err(RegistryError::NotFound { .. }) => return Ok(None),
            found => found?.1,
        };
        let text = self.blob(&reference, &layer, signature::LONGEST).await?;
        // Content that is not text is rejected when it is verified.
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The single layer of an artifact, after the digest of the manifest.
    async fn layer(
        &self,
        reference: &Reference,
        kind: ArtifactKind,
    ) -> Result<(String, Descriptor), RegistryError> {
        let manifest = self.manifest(reference).await?;
        let digest = layout::sha256(&manifest);
        if let Some(pin) = reference.digest() {
            RegistryError::check_digest(reference, pin, &digest)?;
        }
        let layer = layout::layer(&manifest, kind).map_err(|reason| RegistryError::Unfit {
            reference: reference.to_string(),
            expected: kind.title(),
            // It quotes the manifest.
            reason: one_line(&reason),
        })?;
        Ok((digest, layer))
    }

    /// Pushes an artifact to a tag: its parts, then the manifest, which makes it visible.
    pub(super) async fn push(
        &self,
        reference: &Reference,
        package: &Package,
    ) -> Result<(), RegistryError> {
        for blob in [&package.layer, &package.config] {
            self.push_blob(reference, blob.clone()).await?;
        }
        self.push_manifest(reference, package.manifest.clone())
            .await
    }
}
