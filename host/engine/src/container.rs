//! The memory limit of the container that this program runs in: the lowest of its control groups, of version 1 or 2.

use std::path::Path;

use backstop_files::regular_file;

/// The largest of these small files, in bytes.
const MOST: usize = 64 << 10;

/// The limit in bytes, if there is one.
pub(crate) fn memory() -> Option<u64> {
    memory_of(Path::new("/"))
}

/// `root` is the folder that contains `proc` and `sys`.
fn memory_of(root: &Path) -> Option<u64> {
    let read = |path: &Path| regular_file::read_text(path, MOST).ok();
    let groups = read(&root.join("proc/self/cgroup"))?;
    let folders = root.join("sys/fs/cgroup");
    let limits = groups.lines().flat_map(|line| {
        // `0::/path` in version 2, `9:memory:/path` in version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next(), parts.next().unwrap_or("/"));
        let (folder, file) = match controllers {
            Some("") => (folders.clone(), "memory.max"),
            Some(names) if names.split(',').any(|name| name == "memory") => {
                (folders.join("memory"), "memory.limit_in_bytes")
            }
            Some(_) | None => return Vec::new(),
        };
        // A limit of any group above counts too. In a container, the path may be that outside of it.
        let within = Path::new(path.trim_start_matches('/'));
        let levels = within
            .ancestors()
            .map(|level| folder.join(level).join(file));
        levels
            .filter_map(|path| read(&path)?.trim().parse().ok())
            .collect()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/self/cgroup", groups)].iter().chain(files) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        memory_of(root.path())
    }

    #[test]
    fn the_lowest_limit_of_all_groups_counts() {
        let of_2 = "0::/a.slice/b.scope\n";
        for (groups, files, expected) in [
            (of_2, vec![], None),
            (
                of_2,
                vec![("sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n")],
                None,
            ),
            (
                of_2,
                vec![
                    ("sys/fs/cgroup/a.slice/b.scope/memory.max", "900\n"),
                    ("sys/fs/cgroup/a.slice/memory.max", "500\n"),
                ],
                Some(500),
            ),
            (
                "0::/\n",
                vec![("sys/fs/cgroup/memory.max", "700\n")],
                Some(700),
            ),
            (
                "3:cpu,cpuacct:/x\n2:memory:/docker/1\n0::/\n",
                vec![("sys/fs/cgroup/memory/memory.limit_in_bytes", "800\n")],
                Some(800),
            ),
        ] {
            assert_eq!(limit(groups, &files), expected, "{groups}");
        }
    }
}
