//! The folders that are watched for changes to a policy's files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::signature::{SIGNATURE_SUFFIX, signature_path};
use crate::source::{Location, is_policy_file};
use crate::spec::PolicySpec;

/// The most symlinks that are followed from one path.
const LINKS: usize = 40;

/// File systems that report no changes by other machines, by their magic number of statfs(2).
const NETWORK: [u64; 10] = [
    0x6969,      // NFS
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB 2
    0x517B,      // SMB
    0x6573_5546, // FUSE: sshfs, s3fs, and what containers share on macOS
    0x0102_1997, // 9P
    0x00C3_6400, // Ceph
    0x5346_414F, // AFS
    0x0BD0_0BD0, // Lustre
    0x786F_4256, // VirtualBox
];

/// Watched folders. A watch on the file itself would miss editors, which replace the file, and Kubernetes, which swaps a symlink next to it.
pub(super) struct Folders {
    watcher: Option<RecommendedWatcher>,
    own: Arc<Mutex<Own>>,
    watched: BTreeSet<PathBuf>,
    unreliable: bool,
}

impl Folders {
    /// Starts with no folders. `changed` is called for each change in one of them, with `true` if it concerns one of the policy's own files or a link to them.
    pub(super) fn new(changed: impl Fn(bool) + Send + 'static) -> Self {
        let own = Arc::<Mutex<Own>>::default();
        let known = Arc::clone(&own);
        let on_event = move |event: notify::Result<Event>| match event {
            // The update check itself opens the files that it reads.
            Ok(event) if is_reading(event.kind) => {}
            // An event without a path means that some were missed.
            Ok(event) => {
                let mut own = lock(&known);
                if own.replaces(&event) {
                    own.is_replaced = true;
                }
                changed(event.paths.is_empty() || event.paths.iter().any(|path| own.has(path)));
            }
            Err(error) => {
                tracing::warn!(
                    ?error,
                    "watching for policies: some changes may have been missed"
                );
                changed(true);
            }
        };
        let watcher = notify::recommended_watcher(on_event);
        Self {
            watcher: watcher
                .map_err(|error| tracing::warn!(%error, "folders can't be watched: the files of policies are checked every few seconds"))
                .ok(),
            own,
            watched: BTreeSet::new(),
            unreliable: false,
        }
    }

    /// Whether some changes may not be reported.
    pub(super) fn are_unreliable(&self) -> bool {
        self.unreliable
    }

    /// Watches the folders of this policy's files. They may change, because a symlink may point elsewhere than before. With `polled`, no folder is watched.
    pub(super) fn follow(&mut self, spec: &PolicySpec, polled: bool) {
        let paths = spec.sources().filter_map(|source| match &source.location {
            Location::Path(path) if !source.is_pinned() => Some(path),
            Location::Path(_)
            | Location::Builtin(_)
            | Location::S3 { .. }
            | Location::Registry(_) => None,
        });
        let mut own = Own::default();
        for path in paths {
            own.add(path);
        }
        let wanted = own.folders.clone();
        let before = std::mem::replace(&mut *lock(&self.own), own);
        let is_unreliable = polled || wanted.iter().any(|folder| is_network(folder));
        let Some(watcher) = self.watcher.as_mut().filter(|_| !polled) else {
            self.unreliable = !wanted.is_empty();
            return;
        };
        self.unreliable = is_unreliable;
        self.watched.retain(|folder| {
            let is_kept = wanted.contains(folder) && !before.is_replaced;
            if !is_kept {
                let _ = watcher.unwatch(folder);
            }
            is_kept
        });
        for folder in wanted {
            if self.watched.contains(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder);
                }
                Err(error) => {
                    if !self.unreliable {
                        tracing::warn!(folder = %folder.display(), %error, "a folder can't be watched: the policy in it is checked every few seconds");
                    }
                    self.unreliable = true;
                }
            }
        }
    }
}

fn is_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => false,
    }
}

/// The paths whose change can mean another version of the policy.
#[derive(Debug, Default)]
struct Own {
    /// The folders in which such a change can happen: the file's, those of all symlinks on its path, and the folder of versions itself.
    folders: BTreeSet<PathBuf>,
    /// The names of the file, of the symlinks on its path, and of their targets. Names and not paths, because an event may spell the path differently.
    names: BTreeSet<OsString>,
    /// Whether it is a folder of versions.
    has_versions: bool,
    /// Whether one of the folders was moved or removed: another folder may have its name now, and a watch stays with the old one.
    is_replaced: bool,
}

impl Own {
    fn add(&mut self, path: &Path) {
        let mut paths = vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
        let mut followed = 0;
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                self.has_versions = true;
                self.folders.insert(path.clone());
            }
            self.folders.extend(path.parent().map(Path::to_owned));
            self.names.extend(path.file_name().map(OsString::from));
            let signature = signature_path(&path);
            self.names.extend(signature.file_name().map(OsString::from));
            for link in path.ancestors() {
                let (Ok(target), Some(parent)) = (link.read_link(), link.parent()) else {
                    continue;
                };
                self.folders.insert(parent.to_owned());
                self.names.extend(link.file_name().map(OsString::from));
                followed += 1;
                if followed <= LINKS
                    && let Ok(rest) = path.strip_prefix(link)
                {
                    let target = parent.join(target);
                    paths.push(if rest == Path::new("") {
                        target
                    } else {
                        target.join(rest)
                    });
                }
            }
        }
        self.folders.retain(|folder| folder.is_dir());
    }

    fn replaces(&self, event: &Event) -> bool {
        matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        ) && event.paths.iter().any(|path| self.folders.contains(path))
    }

    /// Whether this path is one of the policy's own, or a folder of one.
    fn has(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else {
            return true;
        };
        let is_version = || {
            let signature = name
                .to_str()
                .and_then(|it| it.strip_suffix(SIGNATURE_SUFFIX));
            // Kubernetes swaps a symlink with this name, through which all others lead.
            name == "..data" || is_policy_file(signature.map_or(Path::new(name), Path::new))
        };
        self.names.contains(name)
            || self.folders.contains(path)
            || (self.has_versions && is_version())
    }
}

fn is_network(folder: &Path) -> bool {
    // The type of the field differs between platforms; the magic number has 32 bits.
    rustix::fs::statfs(folder).is_ok_and(|system| {
        let magic = i128::from(system.f_type) & 0xFFFF_FFFF;
        NETWORK.iter().any(|network| i128::from(*network) == magic)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn of(path: &Path) -> Own {
        let mut own = Own::default();
        own.add(path);
        own
    }

    #[test]
    fn a_change_of_any_link_on_the_path_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        // A Capistrano deployment, with a config map of Kubernetes in it.
        std::fs::create_dir_all(at("releases/2/..v1")).unwrap();
        std::fs::write(at("releases/2/..v1/policy.wasm"), "").unwrap();
        symlink("..v1", at("releases/2/..data")).unwrap();
        symlink("..data/policy.wasm", at("releases/2/policy.wasm")).unwrap();
        symlink("releases/2", at("current")).unwrap();
        let own = of(&at("current/policy.wasm"));
        for needed in ["", "current", "releases/2", "releases/2/..v1"] {
            let needed = at(needed).canonicalize().unwrap();
            let is_watched = own
                .folders
                .iter()
                .any(|folder| folder.canonicalize().is_ok_and(|it| it == needed));
            assert!(is_watched, "{}: {own:?}", needed.display());
        }
        for (changed, is_own) in [
            ("current", true),
            ("releases/2/..data", true),
            ("releases/2/policy.wasm", true),
            ("releases/2/..v1/policy.wasm", true),
            ("releases/2/..v1/policy.wasm.minisig", true),
            ("releases/2", true),
            ("decisions.jsonl", false),
            ("releases/2/..data_tmp", false),
            ("releases/2/other.wasm", false),
        ] {
            assert_eq!(own.has(&at(changed)), is_own, "{changed}");
        }
        symlink("loop", at("loop")).unwrap();
        assert!(of(&at("loop/policy.wasm")).folders.contains(&top));
    }

    #[test]
    fn a_folder_is_watched_itself() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let own = of(&top);
        assert!(own.folders.contains(&top));
        for (changed, is_own) in [
            ("orders-10.wasm", true),
            ("orders-10.wasm.minisig", true),
            ("..data", true),
            ("decisions.jsonl", false),
        ] {
            assert_eq!(own.has(&top.join(changed)), is_own, "{changed}");
        }
        assert!(!is_network(&top));
    }
}
