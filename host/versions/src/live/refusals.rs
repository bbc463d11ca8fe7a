//! Remembered refusals, and which of them prevent another try of a version.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use backstop_engine::{CompilerError, PolicyDigest};
use sha2::{Digest, Sha256};

use crate::catalog::Catalog;
use crate::error::PolicyError;
use crate::source::FetchedFile;
use crate::store::{Mark, Store};

/// Which remembered refusals prevent another try of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applicable {
    /// All, because another version can be activated immediately.
    All,
    /// Those of the compiler, which cost time: the fallback can decide in the meantime, but not for long.
    Compiler,
    /// Those that another try would repeat.
    Permanent,
    /// None, because there is no other version.
    None,
}

/// The remembered refusals of one version.
pub(super) struct Refusals<'a> {
    store: Option<&'a Store>,
    title: String,
    keys: Keys,
}

/// The keys of refusals. They depend on the versions of this program and of the engine and on the limits, so a change of any of these allows another try.
struct Keys {
    /// The key of the version: its files, settings and check.
    version: String,
    /// The key of each file.
    files: Vec<String>,
    compiler: u64,
}

impl<'a> Refusals<'a> {
    /// `identity` is what the files are checked with.
    pub(super) fn of(
        catalog: &'a Catalog,
        title: String,
        identity: &str,
        files: &[Arc<FetchedFile>],
    ) -> Self {
        Self {
            store: catalog.refusals.as_ref(),
            title,
            keys: Keys::of(catalog, identity, files),
        }
    }

    /// Refuses the version if it was refused earlier.
    pub(super) fn check(&self, applicable: Applicable) -> Result<(), PolicyError> {
        let Some(store) = self.store else {
            return Ok(());
        };
        if store.take_dead_mark(&self.keys.version) {
            let why = "the host ended while it loaded this version";
            store.refuse(&self.keys.version, why.to_owned(), false);
        }
        for key in self.keys.all() {
            let Some((refusal, path)) = store.refusal(key) else {
                continue;
            };
            let is_heeded = match applicable {
                Applicable::All => true,
                Applicable::Compiler => key != self.keys.version,
                Applicable::Permanent => !refusal.is_transient,
                Applicable::None => false,
            };
            if is_heeded {
                return Err(PolicyError::Remembered {
                    name: self.title.clone(),
                    why: refusal.why,
                    at: refusal.at,
                    path,
                });
            }
            if applicable == Applicable::None {
                tracing::warn!(
                    policy = self.title,
                    "{}: there is no other version to use, so it is tried again",
                    refusal.why
                );
            }
        }
        Ok(())
    }

    /// Remembers that the compiler failed on this file, if the next start should know.
    pub(super) fn remember(&self, digest: PolicyDigest, cause: &CompilerError) {
        if let Some(store) = self.store
            && cause.is_remembered()
        {
            let key = self.keys.of_file(digest);
            store.refuse(&key, cause.to_string(), cause.is_transient());
        }
    }

    /// Marks the version as being loaded, until the mark is dropped.
    pub(super) fn mark(&self) -> Option<Mark> {
        self.store.and_then(|store| store.mark(&self.keys.version))
    }

    /// Forgets all refusals of the version and of its files.
    pub(super) fn forget(&self) {
        if let Some(store) = self.store {
            self.keys.all().for_each(|key| store.forgive(key));
        }
    }
}

impl Keys {
    fn of(catalog: &Catalog, identity: &str, files: &[Arc<FetchedFile>]) -> Self {
        let mut compiler = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut compiler);
        catalog.sandbox.compilation().hash(&mut compiler);
        let mut version = Sha256::new();
        for file in files {
            version.update(file.digest.as_bytes());
        }
        version.update(identity);
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
