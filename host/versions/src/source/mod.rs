//! Where a policy's file comes from. Each kind of source has a module here and an arm in [`Source::fetch_if_changed`], the one place that dispatches: a new kind needs a variant of [`Location`], its spelling in `name`, a module and that arm.

mod builtin;
mod error;
mod fetched;
mod file;
mod name;
#[cfg(feature = "oci")]
mod oci;
#[cfg(not(feature = "oci"))]
#[path = "oci/without.rs"]
mod oci;
mod registry_options;
mod remotes;
#[cfg(feature = "s3")]
mod s3;
#[cfg(not(feature = "s3"))]
#[path = "s3/without.rs"]
mod s3;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Limits;

use crate::signature::Keys;

pub use error::SourceError;
pub(crate) use fetched::FetchedFile;
pub(crate) use file::is_policy_file;
pub use name::{Location, Source};
#[cfg(feature = "oci")]
pub use oci::{ArtifactKind, Challenge, Descriptor, Package, PackageError, Registry, layer_of};
pub use oci::{Reference, RegistryError};
pub use registry_options::RegistryOptions;
pub use remotes::Remotes;
pub use s3::BucketError;
#[cfg(feature = "s3")]
pub use s3::{Bucket, Object};

/// A fetched policy file. It is neither verified nor parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The content of the file.
    pub file: Vec<u8>,
    /// The detached signature, if there is one.
    pub signature: Option<String>,
    /// The pin for its source: the digest of the manifest, or that of the file.
    pub pin: String,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {}", self.file.len(), self.pin)
    }
}

/// How files are fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchOptions<'a> {
    /// The clients of S3 and of registries.
    #[cfg_attr(
        not(any(feature = "s3", feature = "oci")),
        expect(dead_code, reason = "no source is remote")
    )]
    pub(crate) remotes: &'a Remotes,
    /// Whether to fetch the signature, too.
    pub(crate) signature: bool,
    /// The accepted keys. A known file without a signature by one of them is fetched again.
    pub(crate) keys: Option<&'a Keys>,
    /// The time limit for a source outside this machine.
    #[cfg_attr(
        not(any(feature = "s3", feature = "oci")),
        expect(dead_code, reason = "no source is remote")
    )]
    pub(crate) within: Option<Duration>,
    /// The largest file, in bytes.
    pub(crate) most: usize,
}

impl FetchOptions<'_> {
    fn accepts(&self, known: &FetchedFile) -> bool {
        self.keys.is_none_or(|keys| {
            let signature = known.signature.as_deref();
            keys.verify(&known.bytes, signature).is_ok()
        })
    }
}

impl Source {
    /// Fetches the current file. `known` is the file of the last fetch, which is returned if the source reports that it has not changed. Blocks.
    pub(crate) fn fetch_if_changed(
        &self,
        known: Option<&Arc<FetchedFile>>,
        options: FetchOptions<'_>,
    ) -> Result<Arc<FetchedFile>, SourceError> {
        let known = known.filter(|known| options.accepts(known));
        if let Some(known) = known.filter(|known| self.is_pinned_to(known)) {
            return Ok(Arc::clone(known));
        }
        let fetched = match &self.location {
            Location::Builtin(name) => Arc::new(builtin::fetch(name)),
            Location::Path(path) => {
                let file = file::fetch(path, self, options.signature, options.most)?;
                Arc::new(file)
            }
            #[cfg(feature = "s3")]
            Location::S3 { bucket, key } => self.fetch_remote(known, options, async |tag| {
                let s3 = options.remotes.s3();
                let object = (bucket.as_str(), key.as_str());
                s3.fetch(object, tag, options.signature, options.most)
                    .await
                    .map_err(|cause| SourceError::Bucket {
                        name: self.to_string(),
                        cause: Box::new(cause),
                    })
            })?,
            #[cfg(not(feature = "s3"))]
            Location::S3 { .. } => {
                return Err(SourceError::Unsupported {
                    name: self.to_string(),
                    feature: "s3",
                });
            }
            #[cfg(feature = "oci")]
            Location::Registry(reference) => self.fetch_remote(known, options, async |tag| {
                let registry = options.remotes.registry();
                registry
                    .fetch_if_changed(reference, tag, options.signature, options.most)
                    .await
                    .map_err(|cause| SourceError::Registry {
                        name: self.to_string(),
                        cause: Box::new(cause),
                    })
            })?,
            #[cfg(not(feature = "oci"))]
            Location::Registry(reference) => match *reference {},
        };
        match self.pin {
            Some(pin) if pin != fetched.digest => Err(SourceError::Pin {
                name: self.to_string(),
                found: fetched.digest,
            }),
            Some(_) | None => Ok(fetched),
        }
    }

    /// Runs `fetch` on the runtime of the remote sources, within the time limit. It gets the tag of the known file and returns `None` if the source still has that version.
    #[cfg(any(feature = "s3", feature = "oci"))]
    fn fetch_remote(
        &self,
        known: Option<&Arc<FetchedFile>>,
        options: FetchOptions<'_>,
        fetch: impl AsyncFnOnce(Option<&str>) -> Result<Option<FetchedFile>, SourceError>,
    ) -> Result<Arc<FetchedFile>, SourceError> {
        let known = known.filter(|known| known.tag.is_some());
        let tag = known.and_then(|known| known.tag.as_deref());
        let fetched = options.remotes.wait(async {
            match options.within {
                None => fetch(tag).await,
                Some(within) => tokio::time::timeout(within, fetch(tag))
                    .await
                    .unwrap_or_else(|_| {
                        Err(SourceError::Slow {
                            name: self.to_string(),
                            within,
                        })
                    }),
            }
        });
        let asking = |cause| SourceError::Asking {
            name: self.to_string(),
            cause,
        };
        match (fetched.map_err(asking)??, known) {
            (Some(fetched), _) => Ok(Arc::new(fetched)),
            (None, Some(known)) => Ok(Arc::clone(known)),
            (None, None) => Err(asking(std::io::Error::other(
                "it is reported as unchanged, and was never fetched",
            ))),
        }
    }

    /// Whether this source is pinned to the known file, so that nothing needs to be fetched.
    fn is_pinned_to(&self, known: &FetchedFile) -> bool {
        match &self.location {
            Location::Builtin(_) => false,
            Location::Path(_) | Location::S3 { .. } => self.pin == Some(known.digest),
            Location::Registry(reference) => {
                reference.digest().is_some() && reference.digest() == known.tag.as_deref()
            }
        }
    }

    /// Fetches the current file with its signature, at most `most` bytes. Blocks.
    pub fn fetch(&self, remotes: &Remotes, most: usize) -> Result<Fetched, SourceError> {
        let options = FetchOptions {
            remotes,
            signature: true,
            keys: None,
            within: None,
            most,
        };
        let found = self.fetch_if_changed(None, options)?;
        let digest = found.digest.to_string();
        Ok(Fetched {
            file: found.bytes.to_vec(),
            signature: found.signature.clone(),
            pin: match &self.location {
                Location::Registry(_) => found.tag.clone().unwrap_or(digest),
                Location::Builtin(_) | Location::Path(_) | Location::S3 { .. } => digest,
            },
        })
    }

    /// Reads the current content of the file, at most the default of [`Limits::component`]. Blocks.
    pub fn read(&self) -> Result<Vec<u8>, SourceError> {
        let options = FetchOptions {
            remotes: &Remotes::default(),
            signature: false,
            keys: None,
            within: None,
            most: Limits::default().component,
        };
        Ok(self.fetch_if_changed(None, options)?.bytes.to_vec())
    }
}
