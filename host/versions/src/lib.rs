//! Where a retry policy comes from, and how it changes while it decides.
//!
//! [`PolicySpec`] names a policy, [`Catalog`] is what the policies of a host share, [`LivePolicy`] holds the active version, and a [`Watcher`] replaces it when its source changes.
//!
//! ```
//! use backstop_engine::{Limits, Sandbox};
//! use backstop_versions::{LivePolicy, PolicySpec, Reload, Source};
//!
//! let sandbox = Sandbox::new(Limits::default())?;
//! let policy = LivePolicy::load(&sandbox, PolicySpec::from(Source::builtin("linear")))?;
//! assert!(policy.current().title().starts_with("linear ("));
//! assert!(matches!(policy.reload(), Reload::Unchanged));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! A module uses only those above it:
//!
//! | module | content |
//! |---|---|
//! | `signature`, `signing` | keys and signatures of policies |
//! | `source` | names of policies, and fetching: built-in, file or folder, S3 (feature `s3`), OCI registry (feature `oci`) |
//! | `spec` | a policy as the operator names it |
//! | `error` | why a version is refused |
//! | `store` | good versions, compiled code and refusals, kept between two starts |
//! | `catalog` | what the policies of a host share |
//! | `live` | the pipeline: fetch, verify, load, validate, activate; the active version, startup, update checks and roll-backs |
//! | `watch` | when to check for updates: changed folders, and a schedule |
//! | `reloads` | the outcomes of update checks, in the log and in the metrics |
//! | [`outcome`], [`preset`], [`scenario`] | scenarios: the expectations of an author or an operator |

mod catalog;
mod changes;
mod error;
mod folders;
mod health;
mod live;
pub mod outcome;
pub mod preset;
mod reloads;
pub mod scenario;
mod schedule;
mod signature;
mod signing;
mod source;
mod spec;
mod store;
mod watch;

pub use catalog::{Catalog, POLL, REFRESH, ROLLBACKS, RollBack};
pub use changes::DEBOUNCE;
pub use error::PolicyError;
pub use live::{
    Check, Compiling, LivePolicy, NotRolledBack, Passes, Reload, RolledBack, Status, load,
};
pub use reloads::{Purpose, REFUSALS, SWAPS, log_reload};
pub use schedule::Schedule;
pub use signature::{
    InvalidName, KeyError, Keys, LONGEST as LONGEST_SIGNATURE, SIGNATURE_SUFFIX, SignatureError,
    Signed, policy_name, policy_of_file, signature_path, signed_with,
};
pub use signing::{NewKeys, SecretKey, SigningError};
#[cfg(feature = "oci")]
pub use source::{ArtifactKind, Challenge, Descriptor, Package, PackageError, Registry, layer_of};
#[cfg(feature = "s3")]
pub use source::{Bucket, Object};
pub use source::{
    BucketError, Fetched, Location, Reference, RegistryError, RegistryOptions, Remotes, Source,
    SourceError,
};
pub use spec::{PartSpec, PolicySpec};
pub use store::{Store, StoreError, remove_marks};
pub use watch::{WatchError, Watcher};
