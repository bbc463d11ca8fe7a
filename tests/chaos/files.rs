//! Files of the campaign: lines of JSON, and files that are replaced in one piece.

use std::path::Path;

use serde::de::DeserializeOwned;

/// Puts a whole file in the place of another one.
pub(crate) fn replace(path: &Path, content: &[u8]) {
    let next = path.with_added_extension("next");
    std::fs::write(&next, content).unwrap();
    std::fs::rename(&next, path).unwrap();
}

/// The lines of a file that can be read, and how many can't.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path) -> (Vec<T>, usize) {
    let text = std::fs::read(path).unwrap_or_default();
    let mut unreadable = 0;
    let mut read = Vec::new();
    for line in String::from_utf8_lossy(&text).lines() {
        match serde_json::from_str(line) {
            Ok(line) => read.push(line),
            Err(_) => unreadable += 1,
        }
    }
    (read, unreadable)
}
