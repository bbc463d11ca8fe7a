//! The file of undelivered entries, in the format of the input.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::usage;
use crate::error::{Context, Result};

/// The file. Only its owner can read it, and one that stays empty is removed.
#[derive(Debug)]
pub(super) struct UndeliveredFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    /// Whether the delivery has created it, so that it removes it again if it stays empty.
    is_own: bool,
    bytes: u64,
    /// The lines that wait for the end of the line that is being written, if its bytes come one after another.
    waiting: Option<Vec<Vec<u8>>>,
    /// The first write that failed.
    failure: Option<io::Error>,
}

impl UndeliveredFile {
    /// Opens or creates the file, and excludes other deliveries from it until this is dropped or the process ends.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let opened = match path.metadata() {
            // A device or a pipe can't be locked, and is opened with its first line.
            Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(None),
            Ok(_) | Err(_) => locked(path).map(Some),
        };
        let (file, is_own) = match opened {
            Ok(opened) => opened.unzip(),
            Err(TryLockError::WouldBlock) => {
                return Err(usage(format!(
                    "another delivery writes to {}: wait until it ends, or name another file with --undelivered",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("can't write {}", path.display()));
            }
        };
        Ok(Self {
            path: path.to_owned(),
            file: file.map(BufWriter::new),
            is_own: is_own.unwrap_or_default(),
            bytes: 0,
            waiting: None,
            failure: None,
        })
    }

    /// Checks that the file is empty, or, if `resumed` of its bytes belong to the delivery that goes on, removes what is behind them.
    pub(super) fn begin(&mut self, resumed: Option<u64>) -> Result<()> {
        let file = self.file.as_ref().map(BufWriter::get_ref);
        let there = file.map_or(Ok(0), |file| file.metadata().map(|it| it.len()))?;
        let path = self.path.display();
        match resumed {
            Some(bytes) if there >= bytes => {
                let cut = file.map_or(Ok(()), |file| file.set_len(bytes));
                cut.with_context(|| format!("can't write {path}"))?;
                self.bytes = bytes;
                self.is_own = true;
                Ok(())
            }
            None if there == 0 => Ok(()),
            Some(_) => Err(usage(format!(
                "{path} is shorter than the interrupted delivery left it: put it back, or name another file with --undelivered to start over"
            ))),
            None => Err(usage(format!(
                "{path} has entries of an earlier delivery: deliver or move it, or name another file with --undelivered"
            ))),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the file with all lines so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a line. A failure is kept for [`save`](Self::save).
    pub(super) fn add(&mut self, line: &[u8]) {
        if let Some(waiting) = &mut self.waiting {
            waiting.push(line.to_owned());
            return;
        }
        self.add_bytes(line);
        self.add_bytes(b"\n");
    }

    /// Adds the next bytes of a line that is too long to be held. Other lines wait for its [end](Self::end_line).
    pub(super) fn add_piece(&mut self, bytes: &[u8]) {
        self.waiting.get_or_insert_default();
        self.add_bytes(bytes);
    }

    /// Ends a line that was added in pieces, if there is one.
    pub(super) fn end_line(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.add_bytes(b"\n");
            waiting.iter().for_each(|line| self.add(line));
        }
    }

    /// Whether the last line is not complete.
    pub(super) const fn is_in_line(&self) -> bool {
        self.waiting.is_some()
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        if self.failure.is_none()
            && let Err(error) = self.write(bytes)
        {
            self.failure = Some(error);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = OpenOptions::new().append(true).open(&self.path)?;
                none.insert(BufWriter::new(file))
            }
        };
        file.write_all(bytes)?;
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Whether a line could not be written.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Writes all lines to the disk.
    pub(super) fn save(&mut self) -> Result<()> {
        let saved = match (self.failure.take(), &mut self.file) {
            (Some(error), _) => Err(error),
            (None, Some(file)) => file.flush().and_then(|()| file.get_ref().sync_data()),
            (None, None) => Ok(()),
        };
        saved.with_context(|| format!("can't write {}", self.path.display()))
    }
}

impl Drop for UndeliveredFile {
    fn drop(&mut self) {
        // Nobody else has it: it is still locked.
        if self.is_own && self.file.is_some() && self.bytes == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The file, locked, and whether it was created.
fn locked(path: &Path) -> Result<(File, bool), TryLockError> {
    loop {
        let (file, is_new) = create(path).map_err(TryLockError::Error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
            // A file system without locks.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "can't lock the file of undelivered entries");
            }
        }
        // A delivery that has just ended may have removed it.
        if file.metadata().map_err(TryLockError::Error)?.nlink() > 0 {
            return Ok((file, is_new));
        }
    }
}

fn create(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((options.create(true).open(path)?, false))
        }
        opened => Ok((opened?, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, resumed: Option<u64>) -> Result<UndeliveredFile> {
        let mut file = UndeliveredFile::open(path)?;
        file.begin(resumed)?;
        Ok(file)
    }

    #[test]
    fn a_file_with_other_entries_is_not_touched_and_one_that_goes_on_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rest.jsonl");
        drop(open(&path, None).unwrap());
        assert!(!path.exists(), "an empty file is left behind");
        let mut file = open(&path, None).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        file.add(b"one");
        file.add(b"two");
        file.save().unwrap();
        assert_eq!(file.bytes(), 8);
        let refused = open(&path, None).unwrap_err();
        assert!(refused.to_string().contains("another delivery writes to"));
        drop(file);
        let refused = open(&path, None).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("entries of an earlier delivery")
        );
        let mut again = open(&path, Some(4)).unwrap();
        again.add(b"three");
        again.save().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nthree\n");
        drop(again);
        assert!(open(&path, Some(100)).is_err());
    }

    #[test]
    fn lines_wait_for_the_end_of_one_that_comes_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rest.jsonl");
        let mut file = open(&path, None).unwrap();
        file.add_piece(b"lo");
        file.add(b"one");
        assert!(file.is_in_line());
        file.add_piece(b"\xffng");
        file.add(b"two");
        file.end_line();
        file.add(b"three");
        file.save().unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written, b"lo\xffng\none\ntwo\nthree\n");
        assert_eq!(file.bytes(), written.len() as u64);
    }
}
