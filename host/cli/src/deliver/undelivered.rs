//! The file of undelivered entries, in the format of the input.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::usage;
use crate::error::{Context, Result};

/// The file. It is created with its first line.
#[derive(Debug)]
pub(super) struct UndeliveredFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    bytes: u64,
    /// The lines that wait for the end of the line that is being written, if its bytes come one after another.
    waiting: Option<Vec<Vec<u8>>>,
    /// The first write that failed.
    failure: Option<io::Error>,
}

impl UndeliveredFile {
    /// A file that is missing or empty, or one of which `bytes` belong to the delivery that goes on.
    pub(super) fn open(path: &Path, bytes: Option<u64>) -> Result<Self> {
        let there = path.metadata().map_or(0, |metadata| metadata.len());
        match bytes {
            Some(bytes) if there >= bytes => {
                if there > bytes {
                    let file = OpenOptions::new().write(true).open(path);
                    let cut = file.and_then(|file| file.set_len(bytes));
                    cut.with_context(|| format!("can't write {}", path.display()))?;
                }
            }
            None if there == 0 => {}
            Some(_) => {
                let path = path.display();
                return Err(usage(format!(
                    "{path} is shorter than the interrupted delivery left it: put it back, or name another file with --undelivered to start over"
                )));
            }
            None => {
                let path = path.display();
                return Err(usage(format!(
                    "{path} has entries of an earlier delivery: deliver or move it, or name another file with --undelivered"
                )));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            file: None,
            bytes: bytes.unwrap_or_default(),
            waiting: None,
            failure: None,
        })
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
                let file = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&self.path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_other_entries_is_not_touched_and_one_that_goes_on_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rest.jsonl");
        let mut file = UndeliveredFile::open(&path, None).unwrap();
        assert!(!path.exists());
        file.add(b"one");
        file.add(b"two");
        file.save().unwrap();
        assert_eq!(file.bytes(), 8);
        let refused = UndeliveredFile::open(&path, None).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("entries of an earlier delivery")
        );
        let mut again = UndeliveredFile::open(&path, Some(4)).unwrap();
        again.add(b"three");
        again.save().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nthree\n");
        assert!(UndeliveredFile::open(&path, Some(100)).is_err());
    }

    #[test]
    fn lines_wait_for_the_end_of_one_that_comes_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rest.jsonl");
        let mut file = UndeliveredFile::open(&path, None).unwrap();
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
