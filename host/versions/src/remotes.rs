//! The way to policies that are not on this machine: S3 and OCI registries, each asked only for what is new.

use std::fmt;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "s3")]
use aws_config::SdkConfig;
use tokio::runtime::Runtime;
#[cfg(feature = "s3")]
use tokio::sync::OnceCell;
use tokio::time::timeout;

#[cfg(feature = "s3")]
use super::bucket::Bucket;
#[cfg(feature = "oci")]
use super::registry::Registry;
use super::source::{FetchOptions, FetchedFile, Location, Source, SourceError};

/// Clients for S3 and for registries, made when the first policy is asked for there. Cheap to clone.
///
/// They have a runtime of their own, so that looking for a policy is a plain call that blocks, on whatever thread, and no message waits for it.
#[derive(Clone)]
pub struct Remotes(Arc<Inner>);

struct Inner {
    endpoint: Option<String>,
    #[cfg(feature = "s3")]
    sdk: Option<SdkConfig>,
    #[cfg(feature = "s3")]
    bucket: OnceCell<Bucket>,
    #[cfg(feature = "oci")]
    registry: Registry,
    runtime: OnceLock<Runtime>,
}

impl fmt::Debug for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remotes")
            .field("endpoint", &self.0.endpoint)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropped as it is, it would wait, which no async code may.
            runtime.shutdown_background();
        }
    }
}

/// The SDK's own S3, and registries with TLS.
impl Default for Remotes {
    fn default() -> Self {
        Self::new(None, Vec::new())
    }
}

impl Remotes {
    /// S3 at `endpoint` in place of the region's own, if one is given; and `plain_http` registries spoken to without TLS, beside those on this machine. Asks nothing yet.
    pub fn new(endpoint: Option<String>, plain_http: Vec<String>) -> Self {
        #[cfg(not(feature = "oci"))]
        let _ = plain_http;
        Self(Arc::new(Inner {
            endpoint,
            #[cfg(feature = "s3")]
            sdk: None,
            #[cfg(feature = "s3")]
            bucket: OnceCell::new(),
            #[cfg(feature = "oci")]
            registry: Registry::new(plain_http),
            runtime: OnceLock::new(),
        }))
    }

    /// With a configuration of the SDK's that was made already, for S3 or what is like it.
    #[cfg(feature = "s3")]
    pub fn with_sdk(sdk: SdkConfig) -> Self {
        Self(Arc::new(Inner {
            endpoint: None,
            sdk: Some(sdk),
            bucket: OnceCell::new(),
            #[cfg(feature = "oci")]
            registry: Registry::new(Vec::new()),
            runtime: OnceLock::new(),
        }))
    }

    /// Runs what asks S3 or a registry to its end. Blocks: to be called where no async code runs.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> std::io::Result<T> {
        let runtime = match self.0.runtime.get() {
            Some(runtime) => runtime,
            None => {
                let made = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .thread_name("policies")
                    .enable_all()
                    .build()?;
                if let Err(second) = self.0.runtime.set(made) {
                    second.shutdown_background();
                }
                match self.0.runtime.get() {
                    Some(runtime) => runtime,
                    None => return Err(std::io::Error::other("no runtime")),
                }
            }
        };
        Ok(runtime.block_on(work))
    }

    /// The client of registries.
    #[cfg(feature = "oci")]
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// What is there now; `seen` itself where it is still that.
    pub(super) fn look(
        &self,
        source: &Source,
        seen: Option<&Arc<FetchedFile>>,
        options: FetchOptions<'_>,
    ) -> Result<Arc<FetchedFile>, SourceError> {
        let seen = seen.filter(|seen| seen.tag.is_some());
        let asking = self.evaluate(source, seen, options);
        let found = self.wait(async {
            match options.within {
                None => asking.await,
                Some(within) => timeout(within, asking).await.unwrap_or_else(|_| {
                    Err(SourceError::Slow {
                        name: source.to_string(),
                        within,
                    })
                }),
            }
        });
        let asking = |cause| SourceError::Asking {
            name: source.to_string(),
            cause,
        };
        match (found.map_err(asking)??, seen) {
            (Some(found), _) => Ok(Arc::new(found)),
            (None, Some(seen)) => Ok(Arc::clone(seen)),
            (None, None) => Err(asking(std::io::Error::other(
                "it is said to be unchanged, and was never seen",
            ))),
        }
    }

    /// What is new there, if anything is.
    async fn evaluate(
        &self,
        source: &Source,
        seen: Option<&Arc<FetchedFile>>,
        options: FetchOptions<'_>,
    ) -> Result<Option<FetchedFile>, SourceError> {
        let tag = seen.and_then(|seen| seen.tag.as_deref());
        let name = || source.to_string();
        match &source.place {
            Location::Builtin(_) | Location::Path(_) => Ok(None),
            #[cfg(not(feature = "s3"))]
            Location::S3 { .. } => Err(SourceError::Unsupported {
                name: name(),
                feature: "s3",
            }),
            #[cfg(not(feature = "oci"))]
            Location::Registry(reference) => match *reference {},
            #[cfg(feature = "s3")]
            Location::S3 { bucket, key } => {
                let client = self.bucket().await;
                let failed = |cause| SourceError::Bucket {
                    name: name(),
                    cause: Box::new(cause),
                };
                let Some(object) = client
                    .get(bucket, key, tag, options.most)
                    .await
                    .map_err(failed)?
                else {
                    return Ok(None);
                };
                let signature = match options.signature {
                    true => client.signature(bucket, key).await.map_err(failed)?,
                    false => None,
                };
                Ok(Some(FetchedFile::new(object.file, signature, object.etag)))
            }
            #[cfg(feature = "oci")]
            Location::Registry(reference) => {
                let failed = |cause| SourceError::Registry {
                    name: name(),
                    cause: Box::new(cause),
                };
                let registry = &self.0.registry;
                if let Some(tag) = tag
                    && registry.digest(reference).await.map_err(failed)? == tag
                {
                    return Ok(None);
                }
                let artifact = registry
                    .fetch(reference, options.signature, options.most)
                    .await
                    .map_err(failed)?;
                Ok(Some(FetchedFile::new(
                    artifact.file,
                    artifact.signature,
                    Some(artifact.manifest),
                )))
            }
        }
    }

    /// The client of S3, its credentials looked for when it is first asked for.
    #[cfg(feature = "s3")]
    pub async fn bucket(&self) -> &Bucket {
        self.0
            .bucket
            .get_or_init(|| async {
                let sdk = match &self.0.sdk {
                    Some(sdk) => sdk.clone(),
                    None => {
                        let version = aws_config::BehaviorVersion::latest();
                        let mut loader = aws_config::defaults(version);
                        if let Some(endpoint) = &self.0.endpoint {
                            loader = loader.endpoint_url(endpoint);
                        }
                        loader.load().await
                    }
                };
                let is_elsewhere = sdk.endpoint_url().is_some()
                    || std::env::var_os("AWS_ENDPOINT_URL_S3").is_some();
                Bucket::new(&sdk, is_elsewhere)
            })
            .await
    }
}
