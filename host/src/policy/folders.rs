//! The folders that tell of changes to a policy's files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, Debouncer, RecommendedCache, new_debouncer};

use super::source::Place;
use super::{DEBOUNCE, PolicySpec};

/// The most links that are followed from one path.
const LINKS: usize = 40;

/// File systems that do not tell of what others change on them, by the magic number that statfs(2) gives.
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

/// Watched folders. Folders and not files: an editor that replaces a file, and Kubernetes, which swaps a symlink beside it, would slip away from a watch on the file.
pub(super) struct Folders {
    debouncer: Option<Debouncer<RecommendedWatcher, RecommendedCache>>,
    watched: BTreeSet<PathBuf>,
    silent: bool,
}

impl Folders {
    /// None yet. `changed` is called [`DEBOUNCE`] after something in one of them changed; while changes go on, again and again.
    pub(super) fn new(changed: impl Fn() + Send + 'static) -> Self {
        let on_change = move |events: DebounceEventResult| {
            match &events {
                // The look itself opens the files that it reads.
                Ok(events) if events.iter().all(|event| is_reading(event.kind)) => return,
                Ok(_) => {}
                Err(errors) => tracing::warn!(
                    ?errors,
                    "watching for policies: some changes may have been missed"
                ),
            }
            changed();
        };
        let debouncer = new_debouncer(DEBOUNCE, None, on_change);
        Self {
            debouncer: debouncer
                .map_err(|error| tracing::warn!(%error, "folders can't be watched: the files of policies are looked at every few seconds"))
                .ok(),
            watched: BTreeSet::new(),
            silent: false,
        }
    }

    /// Whether a change may happen that nobody tells of.
    pub(super) fn are_silent(&self) -> bool {
        self.silent
    }

    /// Watches the folders that matter for this policy as things are now: a symlink may lead elsewhere than before. With `polled` none is watched.
    pub(super) fn follow(&mut self, spec: &PolicySpec, polled: bool) {
        let paths = spec.sources().filter_map(|source| match &source.place {
            Place::Path(path) if !source.is_pinned() => Some(path),
            Place::Path(_) | Place::Builtin(_) | Place::S3 { .. } | Place::Registry(_) => None,
        });
        let wanted: BTreeSet<_> = paths.flat_map(|path| folders_of(path)).collect();
        let is_silent = polled || wanted.iter().any(|folder| is_network(folder));
        let Some(debouncer) = self.debouncer.as_mut().filter(|_| !polled) else {
            self.silent = !wanted.is_empty();
            return;
        };
        self.silent = is_silent;
        for gone in self.watched.difference(&wanted) {
            let _ = debouncer.unwatch(gone);
        }
        self.watched.retain(|folder| wanted.contains(folder));
        for folder in wanted {
            if self.watched.contains(&folder) {
                continue;
            }
            match debouncer.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder);
                }
                Err(error) => {
                    if !self.silent {
                        tracing::warn!(folder = %folder.display(), %error, "a folder can't be watched: the policy in it is looked at every few seconds");
                    }
                    self.silent = true;
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

/// The folders in which a change can make another file of this path: its own, those of all symlinks on the way, and itself where it is one.
fn folders_of(path: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let mut ways = vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
    let mut followed = 0;
    while let Some(way) = ways.pop() {
        if way.is_dir() {
            folders.insert(way.clone());
        }
        folders.extend(way.parent().map(Path::to_owned));
        for link in way.ancestors() {
            let (Ok(target), Some(beside)) = (link.read_link(), link.parent()) else {
                continue;
            };
            folders.insert(beside.to_owned());
            followed += 1;
            if followed <= LINKS
                && let Ok(rest) = way.strip_prefix(link)
            {
                let target = beside.join(target);
                ways.push(match rest == Path::new("") {
                    true => target,
                    false => target.join(rest),
                });
            }
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

fn is_network(folder: &Path) -> bool {
    // Its width and its sign differ between platforms; the number has 32 bits.
    rustix::fs::statfs(folder).is_ok_and(|system| {
        let magic = i128::from(system.f_type) & 0xFFFF_FFFF;
        NETWORK.iter().any(|network| i128::from(*network) == magic)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_change_of_any_link_on_the_way_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        // As Capistrano deploys, and as Kubernetes mounts a config map below that.
        std::fs::create_dir_all(at("releases/2/..v1")).unwrap();
        std::fs::write(at("releases/2/..v1/policy.wasm"), "").unwrap();
        symlink("..v1", at("releases/2/..data")).unwrap();
        symlink("..data/policy.wasm", at("releases/2/policy.wasm")).unwrap();
        symlink("releases/2", at("current")).unwrap();
        let folders = folders_of(&at("current/policy.wasm"));
        for needed in ["", "current", "releases/2", "releases/2/..v1"] {
            let needed = at(needed).canonicalize().unwrap();
            let is_there = folders
                .iter()
                .any(|folder| folder.canonicalize().is_ok_and(|it| it == needed));
            assert!(is_there, "{}: {folders:?}", needed.display());
        }
        symlink("loop", at("loop")).unwrap();
        assert!(folders_of(&at("loop/policy.wasm")).contains(&top));
    }

    #[test]
    fn a_folder_is_watched_itself() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        assert!(folders_of(&top).contains(&top));
        assert!(!is_network(&top));
    }
}
