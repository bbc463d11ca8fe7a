//! The files that a command writes, all of them or none: none that is there is overwritten, and one that is there with the same text is fine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use super::create_folder;
use crate::error::{Context, Exit, Result};

/// Files by their path in a folder, with their text.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<(PathBuf, String)>);

impl Files {
    pub(super) fn add(&mut self, path: impl Into<PathBuf>, text: String) {
        self.0.push((path.into(), text));
    }

    /// Writes those that are not there yet, and returns their paths. If one is there with another text, nothing is written, and the error names all of these.
    pub(super) fn write(self, folder: &Path) -> Result<Vec<PathBuf>> {
        let files = self.0.into_iter();
        let files = files.map(|(path, text)| (joined(folder, &path), text));
        let files: Vec<_> = files.filter(|(path, text)| !is_there(path, text)).collect();
        let paths = files.iter().map(|(path, _)| path);
        let others: Vec<_> = paths
            .filter(|path| path.symlink_metadata().is_ok())
            .map(|path| path.display().to_string())
            .collect();
        if !others.is_empty() {
            return Err(Exit::Unexpected.because(format!(
                "{} exists and stays as it is, so nothing was written: move it away, or name another folder with --folder",
                others.join(", ")
            )));
        }
        for (path, _) in &files {
            if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
                create_folder(folder)?;
            }
        }
        for (number, (path, text)) in files.iter().enumerate() {
            if let Err(error) = create(path, text) {
                // What was written is removed again, so that a second run finds nothing in its way.
                let written = files.iter().take(number).map(|(path, _)| path);
                written.for_each(|path| drop(std::fs::remove_file(path)));
                return Err(error).with_context(|| format!("can't write {}", path.display()));
            }
        }
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }
}

/// Whether a file is there with this text already: that of an earlier run.
fn is_there(path: &Path, text: &str) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|it| it.is_file());
    is_file && std::fs::read(path).is_ok_and(|it| it == text.as_bytes())
}

/// A path as a person would write it: without `./`.
fn joined(folder: &Path, path: &Path) -> PathBuf {
    let parts = folder.join(path);
    let is_here = |part: &Component<'_>| matches!(part, Component::CurDir);
    parts.components().filter(|part| !is_here(part)).collect()
}

/// Creates a file that is not there yet, whoever else tries at the same time.
fn create(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(text.as_bytes());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    Ok(written?)
}
