//! Writes a file completely or not at all.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::regular_file::WITHOUT_WAITING;

/// Writes a temporary file next to `path`, syncs it to disk, and renames it to `path`. `mode` is its Unix mode.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_with(path, mode, |file| file.write_all(content))
}

/// Like [`write()`], with what a function writes.
pub fn write_with<T>(
    path: &Path,
    mode: u32,
    content: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let (file, written) = temporary(path, mode, content)?;
    file.persist(path)?;
    Ok(written)
}

/// Like [`write()`], unless there is a file of this name: that is an [`io::ErrorKind::AlreadyExists`].
pub fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (file, ()) = temporary(path, mode, |file| file.write_all(content))?;
    file.persist_noclobber(path)?;
    Ok(())
}

fn temporary<T>(
    path: &Path,
    mode: u32,
    content: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<(NamedTempFile, T)> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    let written = content(file.as_file_mut())?;
    file.as_file().sync_all()?;
    Ok((file, written))
}

/// Sets a file's modification time to now. It marks the file as recently used. Never waits for another program, as for one that reads from a pipe.
pub fn touch(path: &Path) {
    let now = std::fs::FileTimes::new().set_modified(backstop_core::clock::system());
    let result = std::fs::File::options()
        .append(true)
        .custom_flags(WITHOUT_WAITING)
        .open(path)
        .and_then(|file| file.set_times(now));
    if let Err(error) = result {
        tracing::debug!(path = %path.display(), %error, "can't set the file's modification time");
    }
}
