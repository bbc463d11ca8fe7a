//! A session with one registry: fetches and pushes policies and signatures as artifacts.

use std::sync::Arc;

use oci_spec::distribution::Reference;
use reqwest::header::HeaderValue;

use super::credentials::credentials;
use super::error::RegistryError;
use super::layout::{self, Descriptor, Kind, MANIFEST, Package};
use super::reader::Reader;
use crate::signature;
use backstop_core::text::one_line;

/// A session with one registry.
#[derive(Clone)]
pub(super) struct Session {
    reader: Arc<Reader>,
}

impl Session {
    /// Looks up the credentials and creates a client. Sends nothing yet.
    pub(super) async fn open(
        reference: &Reference,
        is_plain: bool,
        token_servers: &Arc<Vec<String>>,
    ) -> Result<Self, RegistryError> {
        let login = credentials(reference.resolve_registry()).await;
        let reader = Arc::new(Reader::new(reference, is_plain, token_servers, login)?);
        Ok(Self { reader })
    }

    pub(super) async fn digest(&self, reference: &Reference) -> Result<String, RegistryError> {
        self.reader.digest(reference).await
    }

    /// A policy's file, after the digest of its manifest.
    pub(super) async fn policy(
        &self,
        reference: &Reference,
        most: usize,
    ) -> Result<(String, Vec<u8>), RegistryError> {
        let (digest, layer) = self.layer(reference, Kind::Policy).await?;
        Ok((digest, self.blob(reference, &layer, most).await?))
    }

    /// The signature of a policy's file, if there is one.
    pub(super) async fn signature(
        &self,
        reference: &Reference,
        file: &[u8],
    ) -> Result<Option<String>, RegistryError> {
        let reference = layout::signature_of(reference, file);
        let layer = match self.layer(&reference, Kind::Signature).await {
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
        kind: Kind,
    ) -> Result<(String, Descriptor), RegistryError> {
        let manifest = self.reader.manifest(reference).await?;
        let digest = layout::sha256(&manifest);
        if let Some(pin) = reference.digest()
            && pin != digest
        {
            return Err(RegistryError::Changed {
                reference: reference.to_string(),
                expected: pin.to_owned(),
                found: digest,
            });
        }
        let layer = layout::layer(&manifest, kind).map_err(|reason| RegistryError::Unfit {
            reference: reference.to_string(),
            expected: kind.title(),
            // It quotes the manifest.
            reason: one_line(&reason),
        })?;
        Ok((digest, layer))
    }

    /// The content of a layer, verified against its digest. The other URLs that a manifest may name are ignored.
    async fn blob(
        &self,
        reference: &Reference,
        layer: &Descriptor,
        most: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        if !usize::try_from(layer.size).is_ok_and(|size| size <= most) {
            return Err(RegistryError::TooLarge {
                reference: reference.to_string(),
                size: layer.size,
                most,
            });
        }
        self.reader.blob(reference, &layer.digest, most).await
    }

    /// Pushes an artifact to a tag: its parts, then the manifest, which makes it visible.
    pub(super) async fn push(
        &self,
        reference: &Reference,
        package: &Package,
    ) -> Result<(), RegistryError> {
        for blob in [&package.layer, &package.config] {
            self.reader.push_blob(reference, blob.clone()).await?;
        }
        let media_type = HeaderValue::from_static(MANIFEST);
        let manifest = package.manifest.clone();
        self.reader
            .push_manifest(reference, manifest, media_type)
            .await
    }
}
