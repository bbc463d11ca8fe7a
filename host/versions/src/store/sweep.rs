//! Removes data that no policy needs any more, so that the store does not grow.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::refusals::REMEMBERED;
use super::{PersistedState, Store};
use backstop_core::clock;
use backstop_files::regular_file::{self, WRITTEN};

/// The state of a policy that no host has used for this long is removed.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(180 * 86_400);

/// Code that no known policy needs is removed after this time, or when there is more of it than this.
pub(super) const UNUSED: Duration = Duration::from_secs(30 * 86_400);
pub(super) const UNUSED_BYTES: u64 = 256 << 20;

/// A file that no known policy needs is removed after this time: a host may be about to use it.
pub(super) const UNNAMED: Duration = Duration::from_secs(3_600);

impl Store {
    /// Removes files and code that no known policy names, and old state and refusals.
    pub(crate) fn sweep(&self) {
        let mut named = BTreeSet::new();
        for entry in entries(&self.known()) {
            let text = regular_file::read(&entry.path, WRITTEN).unwrap_or_default();
            match serde_json::from_slice::<PersistedState>(&text) {
                Ok(_) if entry.age > FORGOTTEN => remove(&entry.path),
                Ok(known) => named.extend(
                    known
                        .live
                        .iter()
                        .chain(&known.before)
                        .map(|file| file.digest.hex()),
                ),
                Err(_) => {}
            }
        }
        for entry in [entries(&self.refused()), entries(&self.loading())].concat() {
            if entry.age > REMEMBERED {
                remove(&entry.path);
            }
        }
        let is_named = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.split('.')
                .next()
                .is_some_and(|digest| named.contains(digest))
        };
        for entry in entries(&self.files()) {
            if entry.age > UNNAMED && !is_named(&entry.path) {
                remove(&entry.path);
            }
        }
        let mut code = entries(&self.code());
        code.retain(|entry| !is_named(&entry.path));
        code.sort_by_key(|entry| entry.age);
        let mut bytes = 0;
        for entry in code {
            bytes += entry.bytes;
            if entry.age > UNUSED || bytes > UNUSED_BYTES {
                remove(&entry.path);
            }
        }
    }
}

/// A file of the store.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    bytes: u64,
    /// The time since it was last used.
    age: Duration,
}

pub(super) fn entries(folder: &Path) -> Vec<Entry> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let used = metadata.modified().ok()?;
            Some(Entry {
                path: entry.path(),
                bytes: metadata.len(),
                age: clock::system().duration_since(used).unwrap_or_default(),
            })
        })
        .collect()
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "an unused file can't be removed");
    }
}
