//! The files that a command writes, all of them or none: none that is there is overwritten.

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

    /// Writes them. If one of them is there already, nothing is written, and the error names all that are.
    pub(super) fn write(self, folder: &Path) -> Result<Vec<PathBuf>> {
        let files = self.0.into_iter();
        let files: Vec<_> = files
            .map(|(path, text)| (joined(folder, &path), text))
            .collect();
        let exists = |path: &&PathBuf| path.symlink_metadata().is_ok();
        let there: Vec<_> = files.iter().map(|(path, _)| path).filter(exists).collect();
        if !there.is_empty() {
            let names: Vec<_> = there
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            return Err(Exit::Unexpected.because(format!(
                "{} exists and stays as it is, so nothing was written: move it away, or name another folder with --folder",
                names.join(", ")
            )));
        }
        for (path, text) in &files {
            create(path, text).with_context(|| format!("can't write {}", path.display()))?;
        }
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }
}

/// A path as a person would write it: without `./`.
fn joined(folder: &Path, path: &Path) -> PathBuf {
    let parts = folder.join(path);
    let is_here = |part: &Component<'_>| matches!(part, Component::CurDir);
    parts.components().filter(|part| !is_here(part)).collect()
}

/// Creates a file that is not there yet, whoever else tries at the same time.
fn create(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        create_folder(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}
