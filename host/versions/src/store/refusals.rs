//! What a host does not try again for a day: files that the compiler broke on, and versions during whose loading a host ended.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Store, write};
use backstop_core::clock;
use backstop_core::failure::Timestamp;

/// For how long.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(86_400);

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Refusal {
    pub(crate) why: String,
    pub(crate) at: Timestamp,
    /// Whether another try may end otherwise: a running host tries again by and by, and only a start does without.
    pub(crate) is_transient: bool,
}

impl Store {
    /// What was refused under this key within the last day, and the file that says so.
    pub(crate) fn refusal(&self, key: &str) -> Option<(Refusal, PathBuf)> {
        let path = self.refused().join(key);
        let refusal: Refusal = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let now = clock::now();
        // One of the future was written while the clock was wrong.
        let is_recent = refusal.at <= now && now.since(refusal.at) < REMEMBERED;
        is_recent.then_some((refusal, path))
    }

    /// Remembers that what this key means was refused just now.
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
            tracing::warn!(folder = %self.0.display(), %error, "what was refused can't be remembered: the next start tries it again");
        }
    }

    /// Forgets a refusal, if there is one.
    pub(crate) fn forgive(&self, key: &str) {
        let _ = std::fs::remove_file(self.refused().join(key));
    }
}
