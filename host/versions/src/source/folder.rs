//! A folder of versions: which of its files is meant.

use std::io;
use std::path::{Path, PathBuf};

use super::super::is_policy_file;

/// The policy in a folder whose name comes last, numbers compared as numbers: `orders-10.wasm` comes after `orders-9.wasm`. Files that begin with a dot are on their way and not meant.
pub(super) fn last(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut last: Option<String> = None;
    for entry in folder.read_dir()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_meant = is_policy_file(Path::new(&name)) && !name.starts_with('.');
        // A symlink to a file is one, as Kubernetes mounts them.
        if is_meant && entry.path().is_file() && is_after(&name, last.as_deref()) {
            last = Some(name);
        }
    }
    Ok(last.map(|name| folder.join(name)))
}

/// Without their endings: `orders-10.1` comes after `orders-10`.
fn is_after(name: &str, last: Option<&str>) -> bool {
    let stem = |name: &str| {
        name.rsplit_once('.')
            .map_or("", |(stem, _)| stem)
            .to_owned()
    };
    last.is_none_or(|last| {
        natord::compare(&stem(name), &stem(last))
            .then_with(|| name.cmp(last))
            .is_gt()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_by_name_is_meant_and_numbers_are_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let last = || {
            let found = last(folder.path()).unwrap()?;
            Some(found.file_name()?.to_str()?.to_owned())
        };
        assert_eq!(last(), None);
        for (name, expected) in [
            ("notes.txt", None),
            ("orders-9.wasm", Some("orders-9.wasm")),
            ("orders-10.wasm", Some("orders-10.wasm")),
            (".orders-11.wasm", Some("orders-10.wasm")),
            ("orders-2.wat", Some("orders-10.wasm")),
            ("orders-10.1.wat", Some("orders-10.1.wat")),
            ("orders-11.wasm.part", Some("orders-10.1.wat")),
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
            assert_eq!(last().as_deref(), expected, "{name}");
        }
        std::fs::create_dir(folder.path().join("z.wasm")).unwrap();
        assert_eq!(last().as_deref(), Some("orders-10.1.wat"));
    }
}
