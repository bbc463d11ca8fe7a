//! Where a retry policy comes from and how it changes while it decides: files, folders, S3 and OCI registries; pins and signatures; the store of good versions; the version that is active, and the ways to the next one and back. The features `s3` and `oci` bring in S3 and OCI registries.
//!
//! [`PolicySpec`] names a policy, [`Catalog`] is what the policies of a host have in common, [`LivePolicy`] is the version that is active now, and [`Watcher`] brings in the next one.

#[cfg(feature = "s3")]
mod bucket;
mod catalog;
mod changes;
mod folders;
mod health;
mod live;
pub mod outcome;
pub mod preset;
#[cfg(feature = "oci")]
mod registry;
mod remotes;
pub mod scenario;
mod schedule;
mod signature;
mod signing;
mod source;
mod store;
mod watch;
#[cfg(not(all(feature = "s3", feature = "oci")))]
mod without;

use std::path::Path;

#[cfg(feature = "s3")]
pub use bucket::{Bucket, BucketError, Object};
pub use catalog::{Catalog, POLL, REFRESH, RollBack};
pub use changes::DEBOUNCE;
pub use live::{Check, Compiling, LivePolicy, NotRolledBack, Passes, Reload, RolledBack, Status};
#[cfg(feature = "oci")]
pub use registry::{Artifact, Package, PackageError, Reference, Registry, RegistryError};
pub use remotes::Remotes;
pub use schedule::Schedule;
pub use signature::{
    KeyError, Keys, LONGEST as LONGEST_SIGNATURE, SIGNATURE_SUFFIX, SignatureError, signed_with,
};
pub use signing::{NewKeys, SecretKey, SigningError};
pub use source::{
    Fetched, Location, PartSpec, PolicyError, PolicySpec, Source, SourceError, load, signature_path,
};
pub use store::{Store, StoreError, remove_marks};
pub use watch::{WatchError, Watcher};
#[cfg(not(feature = "s3"))]
pub use without::bucket::BucketError;
#[cfg(not(feature = "oci"))]
pub use without::registry::{Reference, RegistryError};

use backstop_engine::{
    ComponentError, Evaluation, EvaluationError, LogLine, PartName, Payload, Policy, PolicyDigest,
    Sandbox, Shape, ShapeError,
};

/// The metric that counts rollbacks, by the policy's name.
pub const ROLLBACKS: &str = "backstop_policy_rollbacks_total";

/// Whether a file is named as a policy is: a component or a core module, or text.
fn is_policy_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "wasm" || ending == "wat")
}
