//! Pushes to one registry, with the requests of the OCI distribution specification: an upload for each blob, in one piece, and then the manifest. Answers are read within the limits of [`Session`].

use oci_spec::distribution::Reference;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};

use super::error::RegistryError;
use super::layout;
use super::reader::{Access, Session, answer, success};

impl Session {
    /// Uploads a blob, which the registry keeps under its digest.
    pub(super) async fn push_blob(
        &self,
        reference: &Reference,
        blob: Vec<u8>,
    ) -> Result<(), RegistryError> {
        let (base, repository) = (&self.base, reference.repository());
        let url = format!("{base}/v2/{repository}/blobs/uploads/");
        let started = self
            .request(Method::POST, &url, reference, Access::Push)
            .await?;
        let started = success(started, reference).await?;
        let mut location = location(&started, reference)?;
        let digest = layout::sha256(&blob);
        location.query_pairs_mut().append_pair("digest", &digest);
        self.put(location, "application/octet-stream", blob, reference)
            .await
    }

    /// Pushes a manifest to the reference's tag.
    pub(super) async fn push_manifest(
        &self,
        reference: &Reference,
        manifest: Vec<u8>,
    ) -> Result<(), RegistryError> {
        let url = self.manifest_url(reference);
        let url = Url::parse(&url)
            .map_err(|error| RegistryError::refused(reference, error.to_string()))?;
        self.put(url, layout::MANIFEST, manifest, reference).await
    }

    /// Sends content without the read timeout: uploading a large policy over a slow network takes longer.
    async fn put(
        &self,
        url: Url,
        media_type: &str,
        content: Vec<u8>,
        reference: &Reference,
    ) -> Result<(), RegistryError> {
        let is_of_registry = Url::parse(&self.base).is_ok_and(|base| base.origin() == url.origin());
        let allowed = self.trust.check(&url);
        allowed.map_err(|refusal| RegistryError::untrusted(reference, &refusal))?;
        let uploads = self.uploads(reference)?;
        let mut request = uploads
            .request(Method::PUT, url)
            .header(CONTENT_TYPE, media_type)
            .body(content);
        // Credentials go to the registry only, not to another server.
        if is_of_registry {
            let shown = self.authorization(reference, Access::Push).await?;
            request = request.headers(shown.map(|it| (AUTHORIZATION, it)).into_iter().collect());
        }
        let done = success(answer(request, reference).await?, reference).await?;
        match done.status() {
            StatusCode::CREATED => Ok(()),
            other => {
                let reason = format!("HTTP {} instead of 201 for the push", other.as_u16());
                Err(RegistryError::refused(reference, reason))
            }
        }
    }
}

/// The URL to upload a blob to.
fn location(started: &Response, reference: &Reference) -> Result<Url, RegistryError> {
    let named = started.headers().get(LOCATION);
    let named = named.and_then(|named| named.to_str().ok());
    let url = named.and_then(|named| started.url().join(named).ok());
    let reason = "its answer has no location for the upload of a blob";
    url.ok_or_else(|| RegistryError::refused(reference, reason))
}
