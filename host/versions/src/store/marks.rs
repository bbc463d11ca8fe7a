//! Marks of versions that are being loaded. They show the next start that a host ended while it loaded a version.
//!
//! A mark is a file that its process holds locked. A mark without a lock belongs to a process that has ended.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::Store;
use super::refusals::REMEMBERED;
use backstop_core::clock;
use backstop_core::lock::lock;
use backstop_files::regular_file::WITHOUT_WAITING;

/// The marks of this process. Once it shuts down, none are added.
static MARKS: Mutex<Marks> = Mutex::new(Marks {
    are_closed: false,
    paths: Vec::new(),
});

struct Marks {
    are_closed: bool,
    paths: Vec<PathBuf>,
}

fn with_marks<T>(change: impl FnOnce(&mut Marks) -> T) -> T {
    change(&mut lock(&MARKS))
}

/// Removes the marks of this process and adds no more. To be called before an exit that does not wait for other threads, so that no version is blamed for it.
pub fn remove_marks() {
    with_marks(|marks| {
        marks.are_closed = true;
        for path in marks.paths.drain(..) {
            let _ = std::fs::remove_file(path);
        }
    });
}

/// Marks a version as being loaded, until dropped.
pub(crate) struct Mark {
    path: PathBuf,
    file: File,
}

impl Drop for Mark {
    fn drop(&mut self) {
        // A process that already has the file open must not mistake it for a dead mark.
        let _ = self.file.set_len(0);
        let _ = std::fs::remove_file(&self.path);
        with_marks(|marks| marks.paths.retain(|path| *path != self.path));
    }
}

impl Store {
    /// Marks the version with this key as being loaded. `None` if another process has marked it, or if marking fails.
    pub(crate) fn mark(&self, key: &str) -> Option<Mark> {
        let path = self.loading().join(key);
        with_marks(|marks| {
            if marks.are_closed {
                return None;
            }
            let marked = locked(&path, true).and_then(|file| match file {
                Some(mut file) => {
                    file.set_len(0)?;
                    file.write_all(b"loading\n")?;
                    Ok(Some(file))
                }
                None => Ok(None),
            });
            match marked {
                Ok(Some(file)) => {
                    marks.paths.push(path.clone());
                    Some(Mark { path, file })
                }
                Ok(None) => None,
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a version can't be marked as being loaded");
                    None
                }
            }
        })
    }

    /// Whether a process ended within the last day while it loaded the version with this key. The mark is removed.
    pub(crate) fn take_dead_mark(&self, key: &str) -> bool {
        let path = self.loading().join(key);
        let is_dead = || -> io::Result<bool> {
            let Some(mut file) = locked(&path, false)? else {
                return Ok(false);
            };
            let made = file.metadata()?.modified()?;
            let age = clock::system().duration_since(made).unwrap_or_default();
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            std::fs::remove_file(&path)?;
            Ok(!text.is_empty() && age < REMEMBERED)
        };
        is_dead().unwrap_or(false)
    }
}

/// Opens and locks a file. `None` if another process has locked it, or if it does not exist and `make` is false.
fn locked(path: &Path, make: bool) -> io::Result<Option<File>> {
    let opened = File::options()
        .read(true)
        .write(true)
        .create(make)
        .truncate(false)
        .mode(0o600)
        .custom_flags(WITHOUT_WAITING)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
