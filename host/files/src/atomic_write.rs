//! Files that are written whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file under another name first, has it reach the disk, and puts it in the place of what was there. `mode` is that of Unix.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Marks a file as used now.
pub fn touch(path: &Path) {
    let now = std::fs::FileTimes::new().set_modified(backstop_core::clock::system());
    let touched = std::fs::File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_times(now));
    if let Err(error) = touched {
        tracing::debug!(path = %path.display(), %error, "can't be marked as used");
    }
}
