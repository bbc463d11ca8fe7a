//! The kept inputs: a folder for each target. Those of WebAssembly are text where it says the same.

use std::path::{Path, PathBuf};

use crate::Target;

/// Where the inputs of a target are kept.
fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name)
}

/// The kept inputs of a target, by name. A `.wat` is there as text and assembled.
pub fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder(target)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut inputs = Vec::new();
    for path in paths {
        let input = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|it| it == "wat") {
            inputs.push((path.clone(), wat::parse_bytes(&input).unwrap().into_owned()));
        }
        inputs.push((path, input));
    }
    inputs
}
