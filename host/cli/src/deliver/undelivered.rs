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
    pub(super) fn add(&mut self, line: &str) {
        if self.failure.is_none()
            && let Err(error) = self.write(line)
        {
            self.failure = Some(error);
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
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
        file.write_all(line.as_bytes())?;
        file.write_all(b"\n")?;
        self.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX) + 1;
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
        file.add("one");
        file.add("two");
        file.save().unwrap();
        assert_eq!(file.bytes(), 8);
        let refused = UndeliveredFile::open(&path, None).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("entries of an earlier delivery")
        );
        let mut again = UndeliveredFile::open(&path, Some(4)).unwrap();
        again.add("three");
        again.save().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nthree\n");
        assert!(UndeliveredFile::open(&path, Some(100)).is_err());
    }
}
