//! Whose files are trusted. Machine code runs outside of the sandbox, so it may only come from files that only users can write who could replace the program itself.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Checks that only root, this user and the program's owner may change this file or folder. The error starts with `what`.
pub fn own(metadata: &Metadata, what: &str) -> Result<(), String> {
    let owner = metadata.uid();
    // The owner of the program could have replaced it, too.
    let of_program = std::fs::metadata("/proc/self/exe").map(|it| it.uid()).ok();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() && Some(owner) != of_program {
        return Err(format!("{what} belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(format!("{what} can be written to by others"));
    }
    Ok(())
}

/// Checks that this is a folder, not a link to one, that only this user may change.
pub fn own_folder(metadata: &Metadata) -> Result<(), String> {
    if !metadata.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    own(metadata, "it")
}
