//! A private folder that keeps data of policies between two starts: the files of the last two good versions, which version was rolled back, which files the compiler or the host failed on, and compiled code.
//!
//! If the source is unreachable at startup or has no good version, the last good version is used. The store is optional: without it, a policy is fetched and compiled at every start.

mod marks;
mod refusals;
mod sweep;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use backstop_core::failure::Timestamp;
use backstop_engine::{PolicyDigest, trust};
use backstop_files::atomic_write;
use backstop_files::regular_file::{self, WRITTEN};

use crate::signature::{LONGEST, signature_path};
use crate::source::FetchedFile;

pub(crate) use marks::Mark;
pub use marks::remove_marks;

/// A store. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store(PathBuf);

/// Why a folder can't be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It can't be created or read.
    #[error("can't use {} as the store of policies", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Other users could write to it.
    #[error("{} is not used as the store of policies, because {reason}: give a folder that belongs to this user, with mode 0700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The state of a policy from an earlier run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PersistedState {
    /// The version that was active.
    pub(crate) live: Vec<StoredFile>,
    /// The good version before it.
    #[serde(default)]
    pub(crate) before: Vec<StoredFile>,
    /// The version that was rolled back, and why.
    #[serde(default)]
    pub(crate) taken_back: Option<RolledBackVersion>,
    /// For each part, when the newest version that was active was signed, if `signed-for` requires that.
    #[serde(default)]
    pub(crate) newest_signatures: Vec<Option<Timestamp>>,
}

/// A version that was active and is not tried again.
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
    pub(crate) digest: PolicyDigest,
    #[serde(default)]
    tag: Option<String>,
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
    /// Opens the store in this folder, which is created if needed. It must belong to this user, and no other user may write to it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let unusable = |cause| StoreError::Unusable {
            path: folder.to_owned(),
            cause,
        };
        // Absolute, so that it does not depend on the working directory.
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

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The folder of this user: `backstop` in the system's cache folder, such as `~/.cache`.
    pub fn default_folder() -> Option<PathBuf> {
        use etcetera::BaseStrategy;
        let strategy = etcetera::choose_base_strategy().ok()?;
        Some(strategy.cache_dir().join("backstop"))
    }

    /// The folder of compiled code.
    pub fn code(&self) -> PathBuf {
        self.0.join("code")
    }

    /// The folder of the control sockets of running hosts.
    pub fn running(&self) -> PathBuf {
        Self::running_in(&self.0)
    }

    /// The folder of the control sockets for the store in this folder.
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

    /// The state that an earlier run stored under this key. State that can't be read is logged and ignored.
    pub(crate) fn recall(&self, key: &str) -> Option<PersistedState> {
        let path = self.known().join(file_name(key));
        let ignored = |reason: &dyn std::fmt::Display| tracing::warn!(path = %path.display(), %reason, "the stored state of a policy is ignored");
        let text = match regular_file::read(&path, WRITTEN) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                ignored(&error);
                return None;
            }
        };
        match serde_json::from_slice(&text) {
            Ok(known) => {
                atomic_write::touch(&path);
                Some(known)
            }
            Err(error) => {
                ignored(&error);
                None
            }
        }
    }

    /// Stores the state of a policy under this key.
    pub(crate) fn persist(&self, key: &str, state: &PersistedState) {
        let written = serde_json::to_vec_pretty(state)
            .map_err(io::Error::other)
            .and_then(|text| write(&self.known().join(file_name(key)), &text));
        if let Err(error) = written {
            tracing::warn!(folder = %self.0.display(), %error, "the state of a policy can't be stored");
        }
    }

    /// Stores the files of a version. A damaged file is replaced.
    pub(crate) fn keep(&self, files: &[Arc<FetchedFile>]) {
        for file in files {
            let path = self.file(file.digest);
            let kept = regular_file::read(&path, file.bytes.len());
            let is_there = kept.is_ok_and(|it| PolicyDigest::of(&it) == file.digest);
            if is_there {
                atomic_write::touch(&path);
            } else if let Err(error) = write(&path, &file.bytes) {
                tracing::warn!(folder = %self.0.display(), %error, "a policy can't be stored");
            }
            if let Some(signature) = &file.signature
                && let Err(error) = write(&signature_path(&path), signature.as_bytes())
            {
                tracing::warn!(folder = %self.0.display(), %error, "the signature of a policy can't be stored");
            }
        }
    }

    /// The stored files of a version. `None` if one is missing or damaged.
    pub(crate) fn files_of(&self, version: &[StoredFile]) -> Option<Vec<Arc<FetchedFile>>> {
        if version.is_empty() {
            return None;
        }
        let files = version.iter().map(|kept| {
            let path = self.file(kept.digest);
            // This host has written it, within the limit of that time.
            let bytes = regular_file::read(&path, usize::MAX).ok()?;
            let signature = regular_file::read_text(&signature_path(&path), LONGEST).ok();
            atomic_write::touch(&path);
            let found = FetchedFile::new(bytes, signature, kept.tag.clone());
            (found.digest == kept.digest).then(|| Arc::new(found))
        });
        files.collect()
    }

    fn file(&self, digest: PolicyDigest) -> PathBuf {
        Self::file_in(&self.0, digest)
    }

    /// Where the store in this folder has the file with this digest, if it has it.
    pub fn file_in(folder: &Path, digest: PolicyDigest) -> PathBuf {
        let files = folder.join("files");
        files.join(format!("{}.wasm", digest.hex()))
    }
}

/// The file of the state that is stored under this key.
fn file_name(key: &str) -> String {
    format!("{key}.json")
}

/// Writes a file that only this user can read: completely or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    atomic_write::write(path, bytes, 0o600)
}

#[cfg(test)]
mod tests;
