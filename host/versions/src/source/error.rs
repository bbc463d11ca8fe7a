//! Why a policy's file can't be fetched.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use backstop_engine::{PolicyDigest, builtin};

use super::oci::RegistryError;
use super::s3::BucketError;

/// A name that is not a policy's, or a file that can't be fetched.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Neither a built-in policy nor a path.
    #[error("there is no built-in policy `{name}`: expected one of {}, or a path such as ./{name}.wasm", builtin::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// The name of a folder with the sources of a policy, which a host does not build.
    #[error("there is no built-in policy `{name}`, but a folder of this name: name the file in it, {}{}", built.display(), if *is_built { "" } else { ", which `backstop policy build` makes" })]
    Folder {
        /// The name.
        name: String,
        /// The path of the component, as it would be named.
        built: PathBuf,
        /// Whether it is there.
        is_built: bool,
    },
    /// A malformed URL, or one of another scheme.
    #[error("`{name}` does not name a policy: expected {expected}")]
    Name {
        /// The name.
        name: String,
        /// What a valid name looks like.
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
    /// There is no such file.
    #[error("can't read the policy {}: there is no such file; correct the path, build it with `backstop policy build`, or name a built-in policy: {}", path.display(), builtin::names().collect::<Vec<_>>().join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A folder without a policy.
    #[error(
        "there is no policy in the folder {}: expected a file that ends in .wasm or .wat{}",
        path.display(),
        if *has_sources { ". It has the sources of one, which a host does not build: run `backstop policy build` and name the file in its `build` folder" } else { "" }
    )]
    Empty {
        /// The folder.
        path: PathBuf,
        /// Whether it is the folder of a policy's sources.
        has_sources: bool,
    },
    /// Larger than [`Limits::component`](backstop_engine::Limits::component).
    #[error("the policy {name} has more than the {most} bytes that `limits.component` allows")]
    TooLarge {
        /// The policy.
        name: String,
        /// The limit.
        most: usize,
    },
    /// The digest of the file is not the pinned one.
    #[error("the policy {name} does not have the digest that it is pinned to: found {found}")]
    Pin {
        /// The policy.
        name: String,
        /// The digest of the file.
        found: PolicyDigest,
    },
    /// This program was built without this kind of source.
    #[error("can't get the policy {name}: this program is built without the feature `{feature}`")]
    Unsupported {
        /// The policy.
        name: String,
        /// The feature of `backstop-versions` that adds it.
        feature: &'static str,
    },
    /// S3 does not return it.
    #[error("can't get the policy {name}")]
    Bucket {
        /// The policy.
        name: String,
        /// Why.
        #[source]
        cause: Box<BucketError>,
    },
    /// The registry does not return it.
    #[error("can't get the policy {name}")]
    Registry {
        /// The policy.
        name: String,
        /// Why.
        #[source]
        cause: Box<RegistryError>,
    },
    /// The source did not answer in time.
    #[error("can't get the policy {name}: no answer within {within:?}")]
    Slow {
        /// The policy.
        name: String,
        /// The time limit.
        within: Duration,
    },
    /// This machine has no thread or no socket left to fetch it with.
    #[error("can't get the policy {name}: this machine has no thread or socket for it")]
    Asking {
        /// The policy.
        name: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

impl SourceError {
    /// Whether the source can't be reached or read. Otherwise, what it has is no version of the policy.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            // A pipe or a device is neither missing nor closed to this program.
            Self::Unreadable { cause, .. } => cause.kind() != io::ErrorKind::InvalidInput,
            Self::TooLarge { .. }
            | Self::Pin { .. }
            | Self::Unknown { .. }
            | Self::Folder { .. }
            | Self::Name { .. }
            | Self::Unsupported { .. } => false,
            #[cfg(feature = "s3")]
            Self::Bucket { cause, .. } => !matches!(**cause, BucketError::TooLarge { .. }),
            #[cfg(not(feature = "s3"))]
            Self::Bucket { cause, .. } => match **cause {},
            #[cfg(feature = "oci")]
            Self::Registry { cause, .. } => !matches!(**cause, RegistryError::TooLarge { .. }),
            #[cfg(not(feature = "oci"))]
            Self::Registry { cause, .. } => match **cause {},
            Self::Missing { .. } | Self::Empty { .. } | Self::Slow { .. } | Self::Asking { .. } => {
                true
            }
        }
    }
}
