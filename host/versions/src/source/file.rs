//! Policies on this machine: a file, or a folder of versions.

use std::io;
use std::path::{Path, PathBuf};

use backstop_files::regular_file;

use super::error::SourceError;
use super::fetched::FetchedFile;
use crate::signature::{LONGEST, signature_path};

/// The file by which a folder is that of a policy's sources.
pub(super) const MANIFEST: &str = "policy.toml";

/// Reads the policy at this path, or the last version in this folder; `name` is the policy's name in errors. At most `most` bytes.
pub(super) fn fetch(
    path: &Path,
    name: &dyn ToString,
    with_signature: bool,
    most: usize,
) -> Result<FetchedFile, SourceError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |cause| SourceError::Unreadable { path, cause }
    };
    let file = if path.is_dir() {
        last_version(path)
            .map_err(unreadable(path))?
            .ok_or_else(|| SourceError::Empty {
                path: path.to_owned(),
                has_sources: path.join(MANIFEST).is_file(),
            })?
    } else {
        path.to_owned()
    };
    let bytes = regular_file::read(&file, most).map_err(|cause| {
        if cause.kind() == io::ErrorKind::FileTooLarge {
            SourceError::TooLarge {
                name: name.to_string(),
                most,
            }
        } else if cause.kind() == io::ErrorKind::NotFound {
            SourceError::Missing { path: file.clone() }
        } else {
            unreadable(&file)(cause)
        }
    })?;
    let signature = if with_signature {
        signature_of(&file).map_err(unreadable(&signature_path(&file)))?
    } else {
        None
    };
    Ok(FetchedFile::new(bytes, signature, None))
}

fn signature_of(file: &Path) -> io::Result<Option<String>> {
    match regular_file::read(&signature_path(file), LONGEST) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // No signature is that long; verification rejects the text.
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Some(String::new())),
        Err(error) => Err(error),
    }
}

/// Whether the name of a file is that of a policy: a component or a core module (`.wasm`), or text (`.wat`).
pub(crate) fn is_policy_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == "wasm" || ending == "wat")
}

/// The policy in a folder whose name sorts last, numbers compared as numbers: `orders-10.wasm` comes after `orders-9.wasm`. Files whose name starts with a dot are ignored: they are still being written.
fn last_version(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut last: Option<String> = None;
    for entry in folder.read_dir()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_version = is_policy_file(Path::new(&name)) && !name.starts_with('.');
        // Kubernetes mounts versions as symlinks to files.
        if is_version && entry.path().is_file() && is_after(&name, last.as_deref()) {
            last = Some(name);
        }
    }
    Ok(last.map(|name| folder.join(name)))
}

/// Compares names without their endings: `orders-10.1` comes after `orders-10`.
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
    fn the_version_is_the_last_by_name_with_numbers_compared_as_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let last = || {
            let found = last_version(folder.path()).unwrap()?;
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

    #[test]
    fn the_folder_of_a_policy_s_sources_is_no_folder_of_versions() {
        let folder = tempfile::tempdir().unwrap();
        let error = || {
            let fetched = fetch(folder.path(), &"orders", false, 1_000);
            fetched.unwrap_err().to_string()
        };
        assert!(error().ends_with(".wasm or .wat"), "{}", error());
        std::fs::write(folder.path().join(MANIFEST), "").unwrap();
        assert!(
            error().contains("run `backstop policy build`"),
            "{}",
            error()
        );
    }
}
