//! Refusals that a host remembers for a day: files that the compiler failed on, and versions that a host crashed on while it loaded them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Store, write};
use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_files::regular_file::{self, WRITTEN};

/// How long a refusal is remembered.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(86_400);

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Refusal {
    pub(crate) why: String,
    pub(crate) at: Timestamp,
    /// Whether another try may succeed: a running host tries again, a start does not.
    pub(crate) is_transient: bool,
}

impl Store {
    /// The refusal under this key within the last day, and its file.
    pub(crate) fn refusal(&self, key: &str) -> Option<(Refusal, PathBuf)> {
        let path = self.refused().join(key);
        let text = regular_file::read(&path, WRITTEN).ok()?;
        let refusal: Refusal = serde_json::from_slice(&text).ok()?;
        let now = clock::now();
        // A time in the future was written while the clock was wrong.
        let is_recent = refusal.at <= now && now.since(refusal.at) < REMEMBERED;
        is_recent.then_some((refusal, path))
    }

    /// Remembers a refusal under this key.
    pub(crate) fn refuse(&self, key: &str, why: String, is_transient: bool) {
        let refusal = Refusal {
            why,
            at: clock::now(),
            is_transient,
        };
        let written = serde_json::to_vec_pretty(&refusal)
            .map_err(std::io::Error::other)
            .and_then(|text| write(&self.refused().join(key), &text));
        if let Err(error) = written {
            tracing::warn!(folder = %self.0.display(), %error, "a refusal can't be stored: the next start tries the version again");
        }
    }

    /// Forgets a refusal, if there is one.
    pub(crate) fn forgive(&self, key: &str) {
        let _ = std::fs::remove_file(self.refused().join(key));
    }
}
