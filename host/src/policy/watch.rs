//! Watches the folders of policies and has a policy look again when something in its folder changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, Debouncer, RecommendedCache, new_debouncer};

use super::{LivePolicy, Reload};

/// How long a folder must be quiet before it is looked at: a file is often written in several steps.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// A folder that can't be watched.
#[derive(Debug, thiserror::Error)]
#[error("can't watch {} for new versions of a policy", folder.display())]
pub struct WatchError {
    /// The folder; empty where watching is not to be had at all.
    pub folder: PathBuf,
    /// Why.
    #[source]
    pub cause: notify::Error,
}

/// Watches until dropped.
pub struct Watcher {
    _debouncer: Debouncer<RecommendedWatcher, RecommendedCache>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl Watcher {
    /// Watches the folders of these policies' files. Folders, not files: an editor that replaces a file, and Kubernetes, which swaps a symlink beside it, would slip away from a watch on the file.
    ///
    /// `report` is told of every version that was put in place or refused, on a thread of the watcher's own, on which it compiles too.
    pub fn start(
        policies: Vec<Arc<LivePolicy>>,
        report: impl Fn(&LivePolicy, Reload) + Send + Sync + 'static,
    ) -> Result<Self, WatchError> {
        let folders: BTreeSet<PathBuf> = policies
            .iter()
            .flat_map(|policy| policy.spec().files())
            .flat_map(folders_of)
            .collect();
        let look = Arc::new(move || {
            for policy in &policies {
                match policy.reload() {
                    Reload::Unchanged => {}
                    reload @ (Reload::Swapped { .. } | Reload::Refused { .. }) => {
                        report(policy, reload);
                    }
                }
            }
        });
        let on_change = Arc::clone(&look);
        let on_change = move |events: DebounceEventResult| {
            if let Err(errors) = &events {
                tracing::warn!(
                    ?errors,
                    "watching for policies: some changes may have been missed"
                );
            }
            on_change();
        };
        let failed = |folder: &Path| {
            let folder = folder.to_owned();
            move |cause| WatchError { folder, cause }
        };
        let mut debouncer =
            new_debouncer(DEBOUNCE, None, on_change).map_err(failed(Path::new("")))?;
        for folder in &folders {
            debouncer
                .watch(folder, RecursiveMode::NonRecursive)
                .map_err(failed(folder))?;
        }
        // What changed since the policies were loaded and before they were watched.
        look();
        Ok(Self {
            _debouncer: debouncer,
        })
    }
}

/// The folder that the file is in, and the one that a symlink leads to.
fn folders_of(file: &Path) -> Vec<PathBuf> {
    let folder = |file: &Path| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let target = file.canonicalize().ok();
    std::iter::once(folder(file))
        .chain(target.as_deref().map(folder))
        .collect()
}
