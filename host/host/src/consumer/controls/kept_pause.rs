//! The pause of a queue in a file, so that it survives a restart of the host.

use std::path::{Path, PathBuf};
use std::{fs, io};

use backstop_core::clock;
use backstop_files::{atomic_write, regular_file};
use sha2::{Digest, Sha256};

use super::Pause;

/// The most bytes that are read of a file.
const FILE_BYTES: usize = 16 << 10;

/// Where the pause of one queue is kept, for all hosts of this folder.
#[derive(Debug, Clone)]
pub(crate) struct KeptPause(PathBuf);

impl KeptPause {
    /// That of the queue with this ARN in this folder.
    pub(crate) fn of(folder: &Path, arn: &str) -> Self {
        let hash = hex::encode(Sha256::digest(arn));
        Self(folder.join(format!("{}.json", hash.get(..32).unwrap_or(&hash))))
    }

    /// The pause, if there is one that is not over.
    pub(super) fn read(&self) -> Option<Pause> {
        let text = match regular_file::read(&self.0, FILE_BYTES) {
            Ok(text) => text,
            Err(error) => {
                if self.0.exists() {
                    self.warn("read", &error);
                }
                return None;
            }
        };
        match serde_json::from_slice::<Pause>(&text) {
            Ok(pause) if pause.until.is_none_or(|until| until > clock::now()) => Some(pause),
            Ok(_) => {
                self.remove();
                None
            }
            Err(error) => {
                self.warn("read", &error);
                None
            }
        }
    }

    pub(super) fn write(&self, pause: &Pause) {
        let written = self
            .0
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| {
                let content = serde_json::to_vec(pause)?;
                atomic_write::write(&self.0, &content, 0o600)
            });
        if let Err(error) = written {
            self.warn("written, so it ends with this host", &error);
        }
    }

    pub(super) fn remove(&self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.warn("removed, so it goes on after a restart", &error);
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn warn(&self, what: &str, error: &dyn std::fmt::Display) {
        tracing::warn!(file = %self.0.display(), %error, "the kept pause of a queue can't be {what}");
    }
}
