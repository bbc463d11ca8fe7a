//! Whose files are believed: code runs outside of the sandbox, so it may only come from where nobody can put it who could not have replaced the program itself.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Whether only root, this user and the program's owner may change what this is of; why not, with `what` in front.
pub fn own(metadata: &Metadata, what: &str) -> Result<(), String> {
    let owner = metadata.uid();
    // Whoever owns the program could have replaced it, too.
    let of_program = std::fs::metadata("/proc/self/exe").map(|it| it.uid()).ok();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() && Some(owner) != of_program {
        return Err(format!("{what} belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(format!("{what} can be written to by others"));
    }
    Ok(())
}

/// Whether this is of a folder, and nothing that leads to one, which is this user's alone.
pub fn own_folder(metadata: &Metadata) -> Result<(), String> {
    if !metadata.is_dir() {
        return Err("it is no folder".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    own(metadata, "it")
}
