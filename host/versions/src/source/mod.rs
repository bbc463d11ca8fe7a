//! Where a policy comes from: what the operator names, and the file that is there now.

mod folder;
mod name;
mod spec;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::remotes::Remotes;
use super::signature::{Keys, LONGEST, SIGNATURE_SUFFIX};
use crate::{BucketError, Reference, RegistryError};
use backstop_engine::{Limits, PolicyDigest, builtin};
use backstop_files::regular_file;

pub(crate) use spec::PreparedPart;
pub use spec::{PartSpec, PolicyError, PolicySpec, load};

/// Names one component: where it is, and which bytes it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is.
    pub place: Location,
    /// The digest that its file must have: `@sha256:…`. That of a registry's manifest stands in the reference.
    pub pin: Option<PolicyDigest>,
}

/// Where a component is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// One of the four that the host carries.
    Builtin(&'static str),
    /// A file: a component, a core module or text. Or a folder with such files, of which the last by name is meant.
    Path(PathBuf),
    /// An object of S3.
    S3 {
        /// The bucket's name.
        bucket: String,
        /// The object's key.
        key: String,
    },
    /// An artifact of an OCI registry, by tag or by the digest of its manifest.
    Registry(Reference),
}

/// A name that means no component, or a component that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Neither a built-in policy nor a path.
    #[error("there is no built-in policy `{name}`: expected one of {}, or a path such as ./{name}.wasm", builtin::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// What was named.
        name: String,
    },
    /// Something like an address that is none.
    #[error("`{name}` names no policy: expected {expected}")]
    Name {
        /// What was named.
        name: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The file can't be read.
    #[error("can't read the policy {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A folder in which there is no policy.
    #[error("there is no policy in the folder {}: expected a file that ends in .wasm or .wat", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// Larger than [`super::Limits::component`].
    #[error("the policy {name} has more than the {most} bytes that `limits.component` allows")]
    TooLarge {
        /// What was named.
        name: String,
        /// The limit.
        most: usize,
    },
    /// Other bytes than the pin's.
    #[error(
        "the policy {name} is not the one that it is pinned to: what is there has the digest {found}"
    )]
    Pin {
        /// What was named.
        name: String,
        /// What is there.
        found: PolicyDigest,
    },
    /// This program was built without the way there.
    #[error("can't get the policy {name}: this program is built without the feature `{feature}`")]
    Unsupported {
        /// What was named.
        name: String,
        /// The feature of `backstop` that brings it.
        feature: &'static str,
    },
    /// S3 does not give it.
    #[error("can't get the policy {name}")]
    Bucket {
        /// What was named.
        name: String,
        /// Why.
        #[source]
        cause: Box<BucketError>,
    },
    /// The registry does not give it.
    #[error("can't get the policy {name}")]
    Registry {
        /// What was named.
        name: String,
        /// Why.
        #[source]
        cause: Box<RegistryError>,
    },
    /// It does not answer.
    #[error("can't get the policy {name}: no answer within {within:?}")]
    Slow {
        /// What was named.
        name: String,
        /// How long it was waited for.
        within: Duration,
    },
    /// This machine has no thread or no socket left to ask with.
    #[error("can't ask for the policy {name}")]
    Asking {
        /// What was named.
        name: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// A component's file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchedFile {
    /// The whole file.
    pub(super) bytes: Arc<[u8]>,
    /// Its digest.
    pub(super) digest: PolicyDigest,
    /// The detached signature beside it, where one was asked for.
    pub(super) signature: Option<String>,
    /// What the place calls this version of it: an entity tag, a manifest's digest.
    pub(super) tag: Option<String>,
}

impl FetchedFile {
    pub(super) fn new(bytes: Vec<u8>, signature: Option<String>, tag: Option<String>) -> Self {
        Self {
            digest: PolicyDigest::of(&bytes),
            bytes: bytes.into(),
            signature,
            tag,
        }
    }
}

/// A policy as it was fetched, not yet looked into.
#[derive(Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The whole file.
    pub file: Vec<u8>,
    /// The detached signature beside it, if there is one.
    pub signature: Option<String>,
    /// What its source can be pinned to: the digest of the manifest, or that of the file.
    pub pin: String,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {}", self.file.len(), self.pin)
    }
}

/// What there is to look with.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchOptions<'a> {
    /// The way to S3 and to registries.
    pub(super) remotes: &'a Remotes,
    /// Whether the signature is wanted, too.
    pub(super) signature: bool,
    /// Whose signature: what was seen without one of theirs is no longer good enough.
    pub(super) keys: Option<&'a Keys>,
    /// For how long a place outside this machine may keep the look waiting.
    pub(super) within: Option<Duration>,
    /// The largest file, in bytes.
    pub(super) most: usize,
}

impl FetchOptions<'_> {
    fn accepts(&self, seen: &FetchedFile) -> bool {
        self.keys.is_none_or(|keys| {
            let signature = seen.signature.as_deref();
            keys.verify(&seen.bytes, signature).is_ok()
        })
    }
}

impl Source {
    /// One of the four that the host carries.
    pub fn builtin(name: &'static str) -> Self {
        Location::Builtin(name).into()
    }

    /// A file, or a folder of versions.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Location::Path(path.into()).into()
    }

    /// Whether it means the same bytes for ever.
    pub fn is_pinned(&self) -> bool {
        match &self.place {
            Location::Builtin(_) => true,
            Location::Path(_) | Location::S3 { .. } => self.pin.is_some(),
            Location::Registry(reference) => reference.digest().is_some(),
        }
    }

    /// Whether it is reached over the network.
    pub fn is_remote(&self) -> bool {
        matches!(self.place, Location::S3 { .. } | Location::Registry(_))
    }

    /// The whole file as it is now, in this options. `seen` is what was found the last time: it is given back where the place says that nothing has changed. Blocks.
    pub(super) fn look(
        &self,
        seen: Option<&Arc<FetchedFile>>,
        options: FetchOptions<'_>,
    ) -> Result<Arc<FetchedFile>, SourceError> {
        let seen = seen.filter(|seen| options.accepts(seen));
        let found = match (&self.place, seen) {
            (_, Some(seen)) if self.is_this(seen) => return Ok(Arc::clone(seen)),
            (Location::Builtin(name), _) => {
                let bytes = builtin::bytes(name).unwrap_or_default();
                Arc::new(FetchedFile::new(bytes.to_vec(), None, None))
            }
            (Location::Path(path), _) => Arc::new(self.look_at_path(path, options)?),
            (Location::S3 { .. } | Location::Registry(_), seen) => {
                options.remotes.look(self, seen, options)?
            }
        };
        match self.pin {
            Some(pin) if pin != found.digest => Err(SourceError::Pin {
                name: self.to_string(),
                found: found.digest,
            }),
            Some(_) | None => Ok(found),
        }
    }

    /// Whether what was seen is what it is pinned to, so that there is no need to look.
    pub(super) fn is_this(&self, seen: &FetchedFile) -> bool {
        match &self.place {
            Location::Builtin(_) => false,
            Location::Path(_) | Location::S3 { .. } => self.pin == Some(seen.digest),
            Location::Registry(reference) => {
                reference.digest().is_some() && reference.digest() == seen.tag.as_deref()
            }
        }
    }

    fn look_at_path(
        &self,
        path: &Path,
        options: FetchOptions<'_>,
    ) -> Result<FetchedFile, SourceError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |cause| SourceError::Unreadable { path, cause }
        };
        let file = match path.is_dir() {
            true => folder::last(path)
                .map_err(unreadable(path))?
                .ok_or_else(|| SourceError::Empty {
                    path: path.to_owned(),
                })?,
            false => path.to_owned(),
        };
        let bytes = regular_file::read(&file, options.most).map_err(|cause| {
            if cause.kind() == io::ErrorKind::FileTooLarge {
                SourceError::TooLarge {
                    name: self.to_string(),
                    most: options.most,
                }
            } else {
                unreadable(&file)(cause)
            }
        })?;
        let signature = match options.signature {
            true => signature_of(&file).map_err(unreadable(&signature_path(&file)))?,
            false => None,
        };
        Ok(FetchedFile::new(bytes, signature, None))
    }

    /// Its name, the same from whatever folder it is looked at.
    pub(super) fn absolute(&self) -> String {
        match &self.place {
            Location::Path(path) => match std::path::absolute(path) {
                Ok(path) => Self {
                    place: Location::Path(path),
                    pin: self.pin,
                }
                .to_string(),
                Err(_) => self.to_string(),
            },
            Location::Builtin(_) | Location::S3 { .. } | Location::Registry(_) => self.to_string(),
        }
    }

    /// The whole file as it is now, with its signature; at most `most` bytes. Blocks.
    pub fn fetch(&self, remotes: &Remotes, most: usize) -> Result<Fetched, SourceError> {
        let options = FetchOptions {
            remotes,
            signature: true,
            keys: None,
            within: None,
            most,
        };
        let found = self.look(None, options)?;
        let digest = found.digest.to_string();
        Ok(Fetched {
            file: found.bytes.to_vec(),
            signature: found.signature.clone(),
            pin: match &self.place {
                Location::Registry(_) => found.tag.clone().unwrap_or(digest),
                Location::Builtin(_) | Location::Path(_) | Location::S3 { .. } => digest,
            },
        })
    }

    /// Its name, pinned to what a [`Fetched`] of it or a push says.
    pub fn pinned(&self, pin: &str) -> String {
        let name = self.to_string();
        let name = name
            .split_once("@sha256:")
            .map_or(name.as_str(), |(name, _)| name);
        format!("{name}@{pin}")
    }

    /// The whole file as it is now, at most what [`Limits::component`] is without a setting. Blocks.
    pub fn read(&self) -> Result<Vec<u8>, SourceError> {
        let options = FetchOptions {
            remotes: &Remotes::default(),
            signature: false,
            keys: None,
            within: None,
            most: Limits::default().component,
        };
        Ok(self.look(None, options)?.bytes.to_vec())
    }
}

/// Where the detached signature of a file is: beside it, as minisign writes it.
pub fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(SIGNATURE_SUFFIX);
    PathBuf::from(path)
}

fn signature_of(file: &Path) -> io::Result<Option<String>> {
    match regular_file::read(&signature_path(file), LONGEST) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // No signature has as much.
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Some(String::new())),
        Err(error) => Err(error),
    }
}

impl From<Location> for Source {
    fn from(place: Location) -> Self {
        Self { place, pin: None }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Location::Builtin(name) => f.write_str(name),
            Location::Path(path) => path.display().fmt(f),
            Location::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
            Location::Registry(reference) => write!(f, "oci://{reference}"),
        }?;
        match self.pin {
            Some(pin) => write!(f, "@{pin}"),
            None => Ok(()),
        }
    }
}
