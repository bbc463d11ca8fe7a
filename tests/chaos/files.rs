//! Files of the campaign: lines of JSON, and files that are replaced in one piece.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::de::DeserializeOwned;

/// Puts a whole file in the place of another one.
pub(crate) fn replace(path: &Path, content: &[u8]) {
    let next = path.with_added_extension("next");
    std::fs::write(&next, content).unwrap();
    std::fs::rename(&next, path).unwrap();
}

/// Calls this for each line of a file that can be read. How many can't.
pub(crate) fn each_line<T: DeserializeOwned>(path: &Path, mut see: impl FnMut(T)) -> usize {
    let Ok(file) = File::open(path) else {
        return 0;
    };
    let mut unreadable = 0;
    for line in BufReader::new(file).split(b'\n') {
        match serde_json::from_slice(&line.unwrap()) {
            Ok(line) => see(line),
            Err(_) => unreadable += 1,
        }
    }
    unreadable
}

/// The lines of a file that can be read, and how many can't.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path) -> (Vec<T>, usize) {
    let mut read = Vec::new();
    let unreadable = each_line(path, |line| read.push(line));
    (read, unreadable)
}
