//! One registry that is spoken to: its client, and the credentials for it out of Docker's configuration.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor};
use oci_client::secrets::RegistryAuth;
use reqwest::header::HeaderValue;

use super::RegistryError;
use super::layout::{self, Kind, Package};
use super::reader::{CONNECTING, Reader, SILENCE};
use crate::policy::signature;

/// Within which a credential helper answers.
const HELPING: Duration = Duration::from_secs(15);

/// One registry that is spoken to.
#[derive(Clone)]
pub(super) struct Session {
    reader: Arc<Reader>,
    /// Pushes. It reads answers without a limit, and so reads nothing else.
    client: Client,
}

impl Session {
    /// Looks up the credentials and makes a client. Nothing is sent yet.
    pub(super) async fn open(reference: &Reference, is_plain: bool) -> Result<Self, RegistryError> {
        let config = ClientConfig {
            protocol: if is_plain {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            connect_timeout: Some(CONNECTING),
            read_timeout: Some(SILENCE),
            platform_resolver: None,
            user_agent: concat!("backstop/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client =
            Client::try_from(config).map_err(|error| RegistryError::of(reference, error))?;
        let registry = reference.resolve_registry();
        let auth = credentials(registry).await;
        client.store_auth_if_needed(registry, &auth).await;
        let reader = Arc::new(Reader::new(reference, is_plain, auth)?);
        Ok(Self { reader, client })
    }

    pub(super) async fn digest(&self, reference: &Reference) -> Result<String, RegistryError> {
        self.reader.digest(reference).await
    }

    /// A policy's file, with the digest of its manifest before it.
    pub(super) async fn policy(
        &self,
        reference: &Reference,
        most: usize,
    ) -> Result<(String, Vec<u8>), RegistryError> {
        let (digest, layer) = self.layer(reference, Kind::Policy).await?;
        Ok((digest, self.blob(reference, &layer, most).await?))
    }

    /// The signature of a policy's file; none where it has none.
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
        // What is not text is no signature, and is refused as such when it is verified.
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The one layer of an artifact, with the digest of the manifest before it.
    async fn layer(
        &self,
        reference: &Reference,
        kind: Kind,
    ) -> Result<(String, OciDescriptor), RegistryError> {
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
            reason,
        })?;
        Ok((digest, layer))
    }

    /// The content of a layer, which is checked against its digest. Never taken from the other addresses that a manifest may name.
    async fn blob(
        &self,
        reference: &Reference,
        layer: &OciDescriptor,
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
        let failed = |error| RegistryError::of(reference, error);
        for blob in [&package.layer, &package.config] {
            self.client
                .push_blob(reference, blob.clone(), &layout::sha256(blob))
                .await
                .map_err(failed)?;
        }
        let media_type = HeaderValue::from_static(OCI_IMAGE_MEDIA_TYPE);
        self.client
            .push_manifest_raw(reference, package.manifest.clone(), media_type)
            .await
            .map_err(failed)?;
        Ok(())
    }
}

/// The credentials for a registry. None in Docker's configuration, or none that can be had: anonymous.
async fn credentials(registry: &str) -> RegistryAuth {
    let Some(path) = configuration() else {
        return RegistryAuth::Anonymous;
    };
    let (server, config) = (server(registry), path.clone());
    // The configuration may name a program to ask.
    let asking = tokio::task::spawn_blocking(move || credential(&config, &server));
    let found = match tokio::time::timeout(HELPING, asking).await {
        Ok(Ok(found)) => found,
        Ok(Err(panicked)) => Err(panicked.to_string()),
        Err(_) => Err(format!("the helper took more than {}s", HELPING.as_secs())),
    };
    match found {
        Ok(auth) => auth,
        Err(reason) => {
            tracing::warn!(
                registry,
                config = %path.display(),
                "no credentials, going on without: {reason}"
            );
            RegistryAuth::Anonymous
        }
    }
}

fn credential(config: &Path, server: &str) -> Result<RegistryAuth, String> {
    use CredentialRetrievalError as E;
    let file = match File::open(config) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(RegistryAuth::Anonymous);
        }
        Err(error) => return Err(error.to_string()),
    };
    match docker_credential::get_credential_from_reader(io::BufReader::new(file), server) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(RegistryAuth::Basic(user, password))
        }
        Ok(DockerCredential::IdentityToken(_)) => Err(
            "an identity token is not supported: log in with a user's name and a password, or a token in place of the password"
                .to_owned(),
        ),
        Err(E::NoCredentialConfigured) => Ok(RegistryAuth::Anonymous),
        // How every helper says that it has none for this registry.
        Err(E::HelperFailure { stdout, .. }) if stdout.contains("credentials not found") => {
            Ok(RegistryAuth::Anonymous)
        }
        Err(E::HelperFailure { helper, stdout, stderr }) => {
            Err(format!("`{helper} get` failed: {}{}", stdout.trim(), stderr.trim()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// `config.json` of Docker.
fn configuration() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".docker")))?;
    Some(folder.join("config.json"))
}

/// What Docker keeps the credentials of a registry under.
fn server(registry: &str) -> String {
    match registry {
        "index.docker.io" => "https://index.docker.io/v1/".to_owned(),
        other => other.to_owned(),
    }
}
