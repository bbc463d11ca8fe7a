//! WebAssembly policies inside a program (feature `wasm`): files, folders, S3 (feature `s3`) and OCI registries (feature `oci`), swapped while calls wait.
//!
//! ```no_run
//! use backstop_retry::Retrier;
//!
//! # async fn example() -> Result<(), backstop_retry::BuildError> {
//! let retrier = Retrier::builder()
//!     .name("orders")
//!     .policy("oci://registry.example.com/policies/orders:live")
//!     .set("base", "50ms")
//!     .load()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! A new version is fetched, verified, compiled and validated while the old one decides, as in the host. A call that waits keeps its delay; its next failure is decided by the active version. A version that breaks on too many calls is rolled back. [`Retrier::live_policy`](crate::Retrier::live_policy) has the state of the policy, and rolls it back by hand.
//!
//! All retriers of a program share one [`Catalog`]: the sandbox, its limits, and the user's cache directory. [`RetrierBuilder::catalog`](crate::RetrierBuilder::catalog) sets another, for example with required signatures:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use backstop_retry::Retrier;
//! use backstop_retry::wasm::{Catalog, Keys, default_catalog};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let keys = Keys::read(&["orders.pub".to_owned()], Path::new("."))?;
//! let catalog = Catalog { keys: Some(keys), ..default_catalog()? };
//! let retrier = Retrier::builder().policy("./orders.wasm").catalog(catalog).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! A policy may be composed of parts, one for each question. A question without a part is answered by the host's default:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use backstop_retry::Retrier;
//! use backstop_retry::wasm::{PartSpec, Parts, PolicySpec, Source};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let part = |name: &str| -> Result<PartSpec, Box<dyn std::error::Error>> {
//!     let source = Source::parse(name, Path::new("."))?;
//!     Ok(PartSpec { source, settings: [("base", "50ms")].into() })
//! };
//! let parts = Parts { backoff: Some(part("equal-jitter")?), ..Parts::default() };
//! let retrier = Retrier::builder().policy(PolicySpec::Composed(parts)).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`RetrierBuilder::scenarios`](crate::RetrierBuilder::scenarios) names a file of scenarios that every version must pass before it decides, as `scenarios` in the host's configuration.
//!
//! # Untrusted policies
//!
//! A program whose `main` starts with [`compiler_process`] compiles policies in a child process with limits on memory and time. Without it, they are compiled in the program itself, where a malicious file can use up both.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use backstop_core::lock::lock;
use backstop_core::settings::Settings;
use backstop_versions::{Purpose, Watcher, log_reload, scenario};

pub use backstop_engine::{Limits, Parts, Sandbox, SandboxError, compiler_process};
pub use backstop_versions::scenario::ScenarioError;
pub use backstop_versions::{
    Catalog, Keys, LivePolicy, NotRolledBack, PartSpec, PolicyError, PolicySpec, Reload, Remotes,
    RollBack, RolledBack, Source, SourceError, Status, Store, StoreError, WatchError,
};

/// Why a WebAssembly policy can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// The text names no policy.
    #[error(transparent)]
    Source(SourceError),
    /// This machine can't run the sandbox.
    #[error(transparent)]
    Sandbox(SandboxError),
    /// The policy is rejected, or its source is unreachable.
    #[error(transparent)]
    Policy(PolicyError),
    /// The scenarios that it has to pass can't be used.
    #[error(transparent)]
    Scenarios(ScenarioError),
    /// It can't be watched.
    #[error(transparent)]
    Watch(WatchError),
    /// The thread that loads it ended.
    #[error("can't start a thread to load the policy")]
    Thread(#[source] std::io::Error),
}

/// What the retriers of this program share unless [`RetrierBuilder::catalog`](crate::RetrierBuilder::catalog) gives them another: a sandbox with the default limits, and the user's cache directory, if it can be used.
pub fn default_catalog() -> Result<Catalog, SandboxError> {
    static SHARED: Mutex<Option<Catalog>> = Mutex::new(None);
    let mut shared = lock(&SHARED);
    if let Some(catalog) = &*shared {
        return Ok(catalog.clone());
    }
    let sandbox = Sandbox::new(Limits::default())?;
    let folder = Store::default_folder();
    let store = folder.and_then(|folder| Store::open(&folder).ok());
    let compiled = sandbox.compiled().clone();
    let sandbox = sandbox.with_compiled(compiled.kept_in(store.as_ref().map(Store::code)));
    let catalog = Catalog {
        refusals: store.clone(),
        store,
        ..Catalog::from(&sandbox)
    };
    *shared = Some(catalog.clone());
    Ok(catalog)
}

/// How a WebAssembly policy is loaded.
#[derive(Default)]
pub(crate) struct WasmOptions {
    pub(crate) catalog: Option<Catalog>,
    pub(crate) scenarios: Option<PathBuf>,
}

impl WasmOptions {
    /// Loads the policy with this name. Blocks.
    pub(crate) fn load_named(self, name: &str, settings: Settings) -> Result<Watched, WasmError> {
        let source = Source::parse(name, Path::new("")).map_err(WasmError::Source)?;
        self.load(PolicySpec::Single(PartSpec { source, settings }))
    }

    /// Loads this policy, on a thread of its own: a source has its own runtime, which async code must not wait for. Blocks.
    pub(crate) fn load(self, spec: PolicySpec) -> Result<Watched, WasmError> {
        let thread = thread::Builder::new().name("policy".to_owned());
        let loading = thread.spawn(|| self.load_here(spec));
        match loading.map_err(WasmError::Thread)?.join() {
            Ok(loaded) => loaded,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn load_here(self, spec: PolicySpec) -> Result<Watched, WasmError> {
        let catalog = match self.catalog {
            Some(catalog) => catalog,
            None => default_catalog().map_err(WasmError::Sandbox)?,
        };
        let check = self.scenarios.as_deref().map(scenario::required);
        let check = check.transpose().map_err(WasmError::Scenarios)?;
        let policy = LivePolicy::checked(catalog, spec, check).map_err(WasmError::Policy)?;
        let report = |policy: &LivePolicy, reload| log_reload(Purpose::Live, policy, reload);
        let watcher =
            Watcher::start(vec![Arc::clone(&policy)], report).map_err(WasmError::Watch)?;
        Ok(Watched {
            policy,
            _watcher: watcher,
        })
    }
}

/// A policy that is watched for as long as the retrier lives.
pub(crate) struct Watched {
    pub(crate) policy: Arc<LivePolicy>,
    _watcher: Watcher,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}
