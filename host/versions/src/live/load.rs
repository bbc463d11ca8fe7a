//! A version of a policy made of its files: compiled, put together, probed and checked, so that whatever the files do is a refusal, and is remembered where it would cost the next start dear.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::super::source::{FetchedFile, PreparedPart};
use super::super::store::{Store, identity};
use super::super::{Catalog, ComponentError, Policy, PolicyDigest, PolicyError, PolicySpec};
use super::Check;
use super::initial::name_of;
use backstop_core::text::one_line;
use backstop_engine::Wanted;

/// Which refusals of earlier tries keep a version from being tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heed {
    /// All: there is something else to go on with, at once.
    All,
    /// Those of the compiler, which cost time: the fallback can go on meanwhile, but not for good.
    Compiler,
    /// Those that another try would end in as well.
    Lasting,
    /// None: there is nothing to lose.
    None,
}

/// How a version is made.
#[derive(Clone, Copy)]
pub(super) struct Making<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) spec: &'a PolicySpec,
    pub(super) check: Option<&'a Check>,
    /// Components of the version that decides are taken as they are.
    pub(super) kept: Option<&'a Policy>,
    pub(super) heeds: Heed,
    pub(super) wanted: Wanted<'a>,
}

impl Making<'_> {
    /// The policy of these files, past the operator's own check.
    pub(super) fn make(&self, files: &[Arc<FetchedFile>]) -> Result<Policy, PolicyError> {
        let keys = Keys::of(self, files);
        let store = self.catalog.refusals.as_ref();
        if let Some(store) = store {
            self.heed(store, &keys)?;
        }
        let prepared = self
            .spec
            .prepare(self.catalog, files, self.kept, self.wanted);
        let parts = prepared.map_err(|refused| {
            if let Some(store) = store
                && let PolicyError::Component { cause, .. } = &refused.cause
                && let ComponentError::Compiler(cause) = cause
                && cause.is_remembered()
            {
                let key = keys.of_file(refused.digest);
                store.refuse(&key, cause.to_string(), cause.is_transient());
            }
            refused.cause
        })?;
        // From here on it is this process that would go down with it.
        let mark = store.and_then(|store| store.mark(&keys.version));
        let made = catch_unwind(AssertUnwindSafe(|| self.put_together(parts)));
        drop(mark);
        let policy = made.unwrap_or_else(|panic| {
            Err(PolicyError::Panicked {
                name: self.spec.title(),
                why: said(&*panic),
            })
        })?;
        if let Some(store) = store {
            for key in keys.all() {
                store.forgive(key);
            }
        }
        Ok(policy)
    }

    /// Refuses what was refused before, as far as that is to be heeded.
    fn heed(&self, store: &Store, keys: &Keys) -> Result<(), PolicyError> {
        if store.take_dead_mark(&keys.version) {
            let why = "the host ended while it loaded this version";
            store.refuse(&keys.version, why.to_owned(), false);
        }
        for key in keys.all() {
            let Some((refusal, path)) = store.refusal(key) else {
                continue;
            };
            let is_heeded = match self.heeds {
                Heed::All => true,
                Heed::Compiler => key != keys.version,
                Heed::Lasting => !refusal.is_transient,
                Heed::None => false,
            };
            if is_heeded {
                return Err(PolicyError::Remembered {
                    name: self.spec.title(),
                    why: refusal.why,
                    at: refusal.at,
                    path,
                });
            }
            if self.heeds == Heed::None {
                tracing::warn!(
                    policy = self.spec.title(),
                    "{}: there is no other version to go on with, so it is tried again",
                    refusal.why
                );
            }
        }
        Ok(())
    }

    fn put_together(&self, parts: Vec<PreparedPart>) -> Result<Policy, PolicyError> {
        let policy = self.spec.put_together(&self.catalog.sandbox, parts)?;
        match self.check.map(|check| (check.passes)(&policy)) {
            Some(Err(cause)) => Err(PolicyError::Scenarios {
                name: policy.title(),
                cause,
            }),
            Some(Ok(())) | None => Ok(policy),
        }
    }
}

/// What a panic said.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    one_line(text.unwrap_or("a panic"))
}

/// What refusals are remembered under. Another version of this program or of the engine, and other limits, try again.
struct Keys {
    /// For the version: its files with the settings and the check that they are loaded with.
    version: String,
    /// For each of its files.
    files: Vec<String>,
    compiler: u64,
}

impl Keys {
    fn of(making: &Making<'_>, files: &[Arc<FetchedFile>]) -> Self {
        let mut compiler = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut compiler);
        making.catalog.sandbox.compilation().hash(&mut compiler);
        let mut version = Sha256::new();
        for file in files {
            version.update(file.digest.as_bytes());
        }
        version.update(identity(making.spec, name_of(making.check)));
        version.update(compiler.finish().to_le_bytes());
        let mut keys = Self {
            version: hex::encode(version.finalize()),
            files: Vec::new(),
            compiler: compiler.finish(),
        };
        keys.files = files.iter().map(|file| keys.of_file(file.digest)).collect();
        keys
    }

    fn of_file(&self, digest: PolicyDigest) -> String {
        format!("{}.{:016x}", digest.hex(), self.compiler)
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.version)
            .chain(&self.files)
            .map(String::as_str)
    }
}
