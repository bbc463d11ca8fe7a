//! What is kept of policies between two starts, in a private folder: the files of the two last good versions, which version was taken back, what the compiler or the host broke on, and compiled code.
//!
//! A start with the source away, or with a version there that is no good, goes on with what is kept. Nothing here is needed: without a store, or with one that can't be used, a policy is fetched and compiled at every start.

mod marks;
mod refusals;
mod sweep;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use backstop_engine::{PolicyDigest, trust};
use backstop_files::atomic_write;

use crate::signature::signature_path;
use crate::source::FetchedFile;

pub(crate) use marks::Mark;
pub use marks::remove_marks;

/// A private folder. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store(PathBuf);

/// A folder that can't be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It can't be made or looked at.
    #[error("can't use {} to keep policies in", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Others could put code into it.
    #[error("{} is not taken to keep policies in, since {reason}: give a folder of this user's own, with mode 0700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What is known of a policy from an earlier run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PersistedState {
    /// The version that decided last.
    pub(crate) live: Vec<StoredFile>,
    /// The good version before it.
    #[serde(default)]
    pub(crate) before: Vec<StoredFile>,
    /// The version that was taken back, and why.
    #[serde(default)]
    pub(crate) taken_back: Option<RolledBackVersion>,
}

/// A version that was at work and is not tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RolledBackVersion {
    /// The digests of its files.
    pub(crate) version: Vec<PolicyDigest>,
    /// Why.
    pub(crate) why: String,
}

/// One file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    digest: PolicyDigest,
    #[serde(default)]
    tag: Option<String>,
}

impl StoredFile {
    /// That of the file.
    pub(crate) fn digest(&self) -> PolicyDigest {
        self.digest
    }

    /// The first digits of its digest, for people.
    pub(crate) fn short(&self) -> String {
        self.digest.short()
    }

    fn hex(&self) -> String {
        self.digest.hex()
    }
}

impl From<&Arc<FetchedFile>> for StoredFile {
    fn from(file: &Arc<FetchedFile>) -> Self {
        Self {
            digest: file.digest,
            tag: file.tag.clone(),
        }
    }
}

impl Store {
    /// The store in this folder, which is made where there is none; it must belong to this user, and nobody else may write to it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let unusable = |cause| StoreError::Unusable {
            path: folder.to_owned(),
            cause,
        };
        // Absolute: what it keeps is found again from wherever the next start is made.
        let folder = std::path::absolute(folder).map_err(unusable)?;
        let store = Self(folder.clone());
        for part in [
            store.0.clone(),
            store.files(),
            store.code(),
            store.known(),
            store.refused(),
            store.loading(),
            store.running(),
        ] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&part)
                .map_err(unusable)?;
            let metadata = part.symlink_metadata().map_err(unusable)?;
            let open = |reason| StoreError::Open {
                path: part.clone(),
                reason,
            };
            trust::own_folder(&metadata).map_err(open)?;
        }
        Ok(store)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The user's own: `backstop` in the cache folder that the system names, such as `~/.cache`.
    pub fn default_folder() -> Option<PathBuf> {
        use etcetera::BaseStrategy;
        let strategy = etcetera::choose_base_strategy().ok()?;
        Some(strategy.cache_dir().join("backstop"))
    }

    /// Where compiled code is.
    pub fn code(&self) -> PathBuf {
        self.0.join("code")
    }

    /// Where the control sockets of running hosts are.
    pub fn running(&self) -> PathBuf {
        Self::running_in(&self.0)
    }

    /// The same, of the store in this folder.
    pub fn running_in(folder: &Path) -> PathBuf {
        folder.join("running")
    }

    fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    fn known(&self) -> PathBuf {
        self.0.join("known")
    }

    fn refused(&self) -> PathBuf {
        self.0.join("refused")
    }

    fn loading(&self) -> PathBuf {
        self.0.join("loading")
    }

    /// What an earlier run knew of this policy, if it kept anything. What can't be read is said and passed over.
    pub(crate) fn recall(&self, key: &str) -> Option<PersistedState> {
        let path = self.known().join(file_name(key));
        let passed_over = |reason: &dyn std::fmt::Display| tracing::warn!(path = %path.display(), %reason, "what was kept of a policy is passed over");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                passed_over(&error);
                return None;
            }
        };
        match serde_json::from_slice(&text) {
            Ok(known) => {
                atomic_write::touch(&path);
                Some(known)
            }
            Err(error) => {
                passed_over(&error);
                None
            }
        }
    }

    /// Keeps what is known of this policy.
    pub(crate) fn persist(&self, key: &str, state: &PersistedState) {
        let written = serde_json::to_vec_pretty(state)
            .map_err(io::Error::other)
            .and_then(|text| write(&self.known().join(file_name(key)), &text));
        if let Err(error) = written {
            tracing::warn!(folder = %self.0.display(), %error, "what is known of a policy can't be kept");
        }
    }

    /// Keeps the files of a version. One that is there and is not what it was is mended.
    pub(crate) fn keep(&self, files: &[Arc<FetchedFile>]) {
        for file in files {
            let path = self.file(file.digest);
            let is_there =
                std::fs::read(&path).is_ok_and(|it| PolicyDigest::of(&it) == file.digest);
            if is_there {
                atomic_write::touch(&path);
            } else if let Err(error) = write(&path, &file.bytes) {
                tracing::warn!(folder = %self.0.display(), %error, "a policy can't be kept");
            }
            if let Some(signature) = &file.signature
                && let Err(error) = write(&signature_path(&path), signature.as_bytes())
            {
                tracing::warn!(folder = %self.0.display(), %error, "the signature of a policy can't be kept");
            }
        }
    }

    /// The files of a version as they were kept; none where one is missing or is not what it was.
    pub(crate) fn files_of(&self, version: &[StoredFile]) -> Option<Vec<Arc<FetchedFile>>> {
        if version.is_empty() {
            return None;
        }
        let files = version.iter().map(|kept| {
            let path = self.file(kept.digest);
            let bytes = std::fs::read(&path).ok()?;
            let signature = std::fs::read_to_string(signature_path(&path)).ok();
            atomic_write::touch(&path);
            let found = FetchedFile::new(bytes, signature, kept.tag.clone());
            (found.digest == kept.digest).then(|| Arc::new(found))
        });
        files.collect()
    }

    fn file(&self, digest: PolicyDigest) -> PathBuf {
        self.files().join(format!("{}.wasm", digest.hex()))
    }
}

/// The file of the state that is kept under this key.
fn file_name(key: &str) -> String {
    format!("{key}.json")
}

/// Writes a file that only this user can read: completely or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    atomic_write::write(path, bytes, 0o600)
}

#[cfg(test)]
mod tests;
