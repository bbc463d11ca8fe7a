//! The clients of sources outside this machine, and the runtime that they use.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "s3")]
use aws_config::SdkConfig;
use tokio::runtime::Runtime;

use super::registry_options::RegistryOptions;

#[cfg(feature = "oci")]
use super::oci::Registry;
#[cfg(feature = "s3")]
use super::s3::{Bucket, S3};

/// The clients of S3 and of registries, created on first use. Cheap to clone.
///
/// They have their own runtime, so fetching a policy is a blocking call on any thread, and no message waits for it.
#[derive(Clone)]
pub struct Remotes(Arc<Inner>);

struct Inner {
    #[cfg(feature = "s3")]
    s3: S3,
    #[cfg(feature = "oci")]
    registry: Registry,
    runtime: OnceLock<Runtime>,
}

backstop_core::shown!(Remotes);

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime waits for its tasks, which async code must not do.
            runtime.shutdown_background();
        }
    }
}

/// S3 as configured in the environment, and registries with TLS.
impl Default for Remotes {
    fn default() -> Self {
        Self::new(None, RegistryOptions::default())
    }
}

impl Remotes {
    /// Clients with another endpoint of S3, if one is given. Sends nothing yet.
    #[cfg_attr(
        not(all(feature = "s3", feature = "oci")),
        expect(unused_variables, reason = "each is for one of the features")
    )]
    pub fn new(endpoint: Option<String>, registries: RegistryOptions) -> Self {
        Self(Arc::new(Inner {
            #[cfg(feature = "s3")]
            s3: S3::new(endpoint, None),
            #[cfg(feature = "oci")]
            registry: Registry::new(registries),
            runtime: OnceLock::new(),
        }))
    }

    /// Clients with this configuration of the SDK, for S3 or a compatible service.
    #[cfg(feature = "s3")]
    pub fn with_sdk(sdk: SdkConfig) -> Self {
        Self(Arc::new(Inner {
            s3: S3::new(None, Some(sdk)),
            #[cfg(feature = "oci")]
            registry: Registry::new(RegistryOptions::default()),
            runtime: OnceLock::new(),
        }))
    }

    /// Runs `work` to its end. Blocks: must not be called from async code.
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

    /// S3.
    #[cfg(feature = "s3")]
    pub(super) fn s3(&self) -> &S3 {
        &self.0.s3
    }

    /// The client of S3. The first call looks up the credentials.
    #[cfg(feature = "s3")]
    pub async fn bucket(&self) -> &Bucket {
        self.0.s3.client().await
    }

    /// The client of registries.
    #[cfg(feature = "oci")]
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }
}
