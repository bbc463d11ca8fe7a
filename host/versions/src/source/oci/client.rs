//! The client of OCI registries. Everything fetched is verified against its digest; registries are not trusted.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use oci_spec::distribution::Reference;

use super::error::RegistryError;
use super::layout::{self, Package};
use super::reader::Session;
use crate::source::Fetched;
use crate::source::fetched::FetchedFile;
use crate::source::registry_options::RegistryOptions;

/// The time limit for resolving a tag.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(15);

/// The time limit for fetching or pushing a policy with its signature.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(120);

/// A client of registries. Clones share their logins.
#[derive(Clone)]
pub struct Registry {
    plain_http: Arc<Vec<String>>,
    token_servers: Arc<Vec<String>>,
    sessions: Arc<Mutex<BTreeMap<String, Arc<Session>>>>,
}

impl Registry {
    /// A client that uses TLS, except for `localhost`, `127.0.0.1` and the hosts of the options.
    pub fn new(options: RegistryOptions) -> Self {
        Self {
            plain_http: Arc::new(options.plain_http),
            token_servers: Arc::new(options.token_servers),
            sessions: Arc::default(),
        }
    }

    /// The digest of the reference's manifest: its pin, if it has one, or the registry's answer to a HEAD request.
    pub async fn digest(&self, reference: &Reference) -> Result<String, RegistryError> {
        if let Some(pin) = reference.digest() {
            return Ok(pin.to_owned());
        }
        let session = self.session(reference).await?;
        self.within(RESOLVE_TIMEOUT, reference, session.digest(reference))
            .await
    }

    /// Like [`Registry::fetch`], unless the policy's manifest still has the digest `tag`.
    pub(in crate::source) async fn fetch_if_changed(
        &self,
        reference: &Reference,
        tag: Option<&str>,
        with_signature: bool,
        most: usize,
    ) -> Result<Option<FetchedFile>, RegistryError> {
        if let Some(tag) = tag
            && self.digest(reference).await? == tag
        {
            return Ok(None);
        }
        let found = self.fetch(reference, with_signature, most).await?;
        Ok(Some(FetchedFile::new(
            found.file,
            found.signature,
            Some(found.pin),
        )))
    }

    /// Fetches a policy, and its signature if requested. Its digests are verified; its signature is not. A policy of more than `most` bytes is an error, before its content is fetched.
    pub async fn fetch(
        &self,
        reference: &Reference,
        with_signature: bool,
        most: usize,
    ) -> Result<Fetched, RegistryError> {
        let session = self.session(reference).await?;
        let fetching = async {
            let (pin, file) = session.policy(reference, most).await?;
            let signature = if with_signature {
                session.signature(reference, &file).await?
            } else {
                None
            };
            Ok(Fetched {
                file,
                signature,
                pin,
            })
        };
        self.within(TRANSFER_TIMEOUT, reference, fetching).await
    }

    /// Pushes a policy to a tag and returns the digest of its manifest. The signature is pushed first, so that the policy is never visible without it. A reference with a pin is an error, since the pushed policy may have another digest.
    pub async fn push(
        &self,
        reference: &Reference,
        package: &Package,
        signature: Option<&str>,
    ) -> Result<String, RegistryError> {
        if reference.digest().is_some() {
            let reason = "a policy is pushed to a tag, not to a digest";
            return Err(RegistryError::refused(reference, reason));
        }
        let session = self.session(reference).await?;
        let pushing = async {
            if let Some(signature) = signature {
                let tag = layout::signature_of(reference, &package.layer);
                session.push(&tag, &Package::signature(signature)).await?;
            }
            session.push(reference, package).await?;
            Ok(package.digest())
        };
        self.within(TRANSFER_TIMEOUT, reference, pushing).await
    }

    /// The session with the registry of a reference, which is opened if needed.
    async fn session(&self, reference: &Reference) -> Result<Arc<Session>, RegistryError> {
        let registry = reference.resolve_registry();
        if let Some(session) = self.sessions().get(registry) {
            return Ok(Arc::clone(session));
        }
        let is_plain = self.is_plain(registry);
        let session = Arc::new(Session::open(reference, is_plain, &self.token_servers).await?);
        let opened = Arc::clone(&session);
        self.sessions().insert(registry.to_owned(), opened);
        Ok(session)
    }

    /// Runs a request with a time limit. After a refusal the session is dropped, so that the next request reads the credentials again.
    async fn within<T>(
        &self,
        limit: Duration,
        reference: &Reference,
        request: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let answer = tokio::time::timeout(limit, request)
            .await
            .unwrap_or_else(|_| {
                let reason = format!("it took more than {}s", limit.as_secs());
                Err(RegistryError::unreachable(reference, reason))
            });
        if answer.as_ref().is_err_and(|error| !error.is_unreachable()) {
            self.sessions().remove(reference.resolve_registry());
        }
        answer
    }

    fn is_plain(&self, registry: &str) -> bool {
        let host = registry.split(':').next().unwrap_or(registry);
        let is_named = |plain: &String| plain == registry || plain == host;
        ["localhost", "127.0.0.1"].contains(&host) || self.plain_http.iter().any(is_named)
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        lock(&self.sessions)
    }
}

backstop_core::shown!(Registry, registry =>
    plain_http = registry.plain_http, token_servers = registry.token_servers
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_not_used_for_this_machine_and_the_listed_registries() {
        let registry = Registry::new(RegistryOptions {
            plain_http: vec!["registry.lan".to_owned(), "10.0.0.7:5000".to_owned()],
            token_servers: Vec::new(),
        });
        for (named, expected) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("registry.lan", true),
            ("registry.lan:443", true),
            ("10.0.0.7:5000", true),
            ("10.0.0.7", false),
            ("10.0.0.7:5001", false),
            ("localhost.example.com", false),
            ("registry.example.com", false),
        ] {
            assert_eq!(registry.is_plain(named), expected, "{named}");
        }
    }

    #[tokio::test]
    async fn a_pinned_reference_is_resolved_without_a_request() {
        let pin = format!("sha256:{}", "0".repeat(64));
        let reference = format!("127.0.0.1:1/policies/orders@{pin}")
            .parse()
            .unwrap();
        let found = Registry::new(RegistryOptions::default())
            .digest(&reference)
            .await;
        assert_eq!(found.unwrap(), pin);
    }

    #[tokio::test]
    async fn credentials_are_looked_up_again_after_a_refusal_but_not_after_an_outage() {
        let registry = Registry::new(RegistryOptions::default());
        let reference: Reference = "127.0.0.1:1/policies/orders:1".parse().unwrap();
        let answer = async |error: RegistryError| {
            registry.session(&reference).await.unwrap();
            let answer =
                registry.within(RESOLVE_TIMEOUT, &reference, async { Err::<(), _>(error) });
            assert!(answer.await.is_err());
            registry.sessions().is_empty()
        };
        assert!(!answer(RegistryError::unreachable(&reference, String::new())).await);
        let denied = RegistryError::Denied {
            reference: reference.to_string(),
            registry: String::new(),
            reason: String::new(),
        };
        assert!(answer(denied).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_never_answers_is_unreachable() {
        let registry = Registry::new(RegistryOptions::default());
        let reference: Reference = "127.0.0.1:1/policies/orders:1".parse().unwrap();
        let never = std::future::pending::<Result<(), _>>();
        let answer = registry.within(RESOLVE_TIMEOUT, &reference, never).await;
        let expected = "the registry 127.0.0.1:1 is unreachable: it took more than 15s";
        assert_eq!(answer.unwrap_err().to_string(), expected);
    }
}
