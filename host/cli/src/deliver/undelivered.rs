//! The file of undelivered entries, in the format of the input.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Context, Exit, Result};

/// The file. Only its owner can read it, and one that stays empty is removed.
#[derive(Debug)]
pub(super) struct UndeliveredFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    /// Whether the delivery has created it, so that it removes it again if it stays empty.
    is_own: bool,
    bytes: u64,
    /// The line whose bytes come one after another, if there is one.
    long: Option<LongLine>,
    /// The first write that failed.
    failure: Option<io::Error>,
}

/// A line that is being written piece by piece.
#[derive(Debug)]
struct LongLine {
    /// Where it starts in the file.
    start: u64,
    /// The lines that wait for its end.
    waiting: Vec<Vec<u8>>,
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
                return Err(Exit::Usage.because(format!(
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
            long: None,
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
            Some(_) => Err(Exit::Usage.because(format!(
                "{path} is shorter than the interrupted delivery left it: put it back, or name another file with --undelivered to start over"
            ))),
            None => Err(Exit::Usage.because(format!(
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
        if let Some(long) = &mut self.long {
            long.waiting.push(line.to_owned());
            return;
        }
        self.add_bytes(line);
        self.add_bytes(b"\n");
    }

    /// Adds the next bytes of a line that is too long to be held. Other lines wait for its [end](Self::end_line).
    pub(super) fn add_piece(&mut self, bytes: &[u8]) {
        let start = self.bytes;
        self.long.get_or_insert_with(|| LongLine {
            start,
            waiting: Vec::new(),
        });
        self.add_bytes(bytes);
    }

    /// Ends a line that was added in pieces, if there is one.
    pub(super) fn end_line(&mut self) {
        if let Some(long) = self.long.take() {
            self.add_bytes(b"\n");
            self.add_all(&long.waiting);
        }
    }

    /// Takes a line back that was added in pieces, if there is one: its rest can't be read, so the input has no such line. A device or a pipe can't give it back; there it ends.
    pub(super) fn take_line_back(&mut self) {
        let Some(long) = self.long.take() else {
            return;
        };
        if self.failure.is_none() {
            match self.cut(long.start) {
                Ok(true) => {}
                Ok(false) => self.add_bytes(b"\n"),
                Err(error) => self.failure = Some(error),
            }
        }
        self.add_all(&long.waiting);
    }

    /// Removes everything from `start` on. Returns whether that is possible.
    fn cut(&mut self, start: u64) -> io::Result<bool> {
        let Some(file) = &mut self.file else {
            return Ok(true);
        };
        file.flush()?;
        if !file.get_ref().metadata()?.is_file() {
            return Ok(false);
        }
        file.get_ref().set_len(start)?;
        self.bytes = start;
        Ok(true)
    }

    fn add_all(&mut self, lines: &[Vec<u8>]) {
        lines.iter().for_each(|line| self.add(line));
    }

    /// Whether the last line is not complete.
    pub(super) const fn is_in_line(&self) -> bool {
        self.long.is_some()
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
    #[test]
    fn a_line_whose_rest_cannot_be_read_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rest.jsonl");
        let mut file = open(&path, None).unwrap();
        file.take_line_back();
        file.add(b"one");
        file.add_piece(&[b'x'; 100_000]);
        file.add(b"two");
        file.add_piece(b"yz");
        file.take_line_back();
        assert!(!file.is_in_line());
        file.add(b"three");
        file.save().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(file.bytes(), 14);
    }
}
