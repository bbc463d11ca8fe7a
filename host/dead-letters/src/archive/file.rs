//! An archive as a file: lines are appended and synced to disk. One process at a time has it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use backstop_core::text::of_folder;
use backstop_files::regular_file;

use super::line::{ArchivedLetter, InvalidLine};
use crate::json_lines;

/// The longest line, in bytes: a message of the largest size with every character escaped.
pub const LINE_BYTES: u64 = 16 << 20;

/// Why an archive can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Reading or writing failed.
    #[error("can't use the archive {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// Another process has it.
    #[error("another command is using the archive {}", .0.display())]
    Busy(PathBuf),
    /// It is something else.
    #[error("{}, line {line}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// The cause.
        #[source]
        cause: InvalidLine,
    },
}

/// A file to which letters are added.
#[derive(Debug)]
pub struct ArchiveFile {
    file: File,
    path: PathBuf,
    /// A write has failed: half a line may be at the end, and nothing is written behind it.
    is_torn: bool,
}

impl ArchiveFile {
    /// Creates the file, which only its owner can read, or opens an archive to add to. If a process was killed while it wrote the last line, that line is removed: its letter was not deleted from its queue. A whole letter without a line break, as some editors leave it, stays.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let failed = |cause| ArchiveError::Io {
            path: path.to_owned(),
            cause,
        };
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(|cause| failed(of_folder(cause)))?;
        if !file.metadata().map_err(failed)?.is_file() {
            let reason = "it is no regular file, so what is written to it may not last";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let locked = file.try_lock();
        locked.map_err(|_| ArchiveError::Busy(path.to_owned()))?;
        ArchivedLetters::open(path)?.next().transpose()?;
        let mut archive = Self {
            file,
            path: path.to_owned(),
            is_torn: false,
        };
        let is_letter = |line: &[u8]| ArchivedLetter::parse_bytes(line).is_ok();
        json_lines::end(&mut archive.file, LINE_BYTES, is_letter).map_err(failed)?;
        archive.file.sync_all().map_err(failed)?;
        // The folder's entry for a new file has to last, too.
        let folder = path.parent().filter(|it| *it != Path::new(""));
        let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        folder.sync_all().map_err(failed)?;
        Ok(archive)
    }

    /// Appends lines. They are on disk when this returns.
    pub fn store(&mut self, lines: &[String]) -> Result<(), ArchiveError> {
        self.write(lines).map_err(|cause| ArchiveError::Io {
            path: self.path.clone(),
            cause,
        })
    }

    fn write(&mut self, lines: &[String]) -> io::Result<()> {
        if self.is_torn {
            let why = "an earlier write has failed, and may have left half a line";
            return Err(io::Error::other(why));
        }
        self.is_torn = true;
        self.file.write_all(lines.concat().as_bytes())?;
        self.file.sync_data()?;
        self.is_torn = false;
        Ok(())
    }
}

/// The letters of an archive, in their order. The last line may be incomplete, if a process was killed while it wrote it: it is skipped, and [`ArchivedLetters::incomplete`] has its number.
pub struct ArchivedLetters<R> {
    input: R,
    path: PathBuf,
    number: u64,
    incomplete: Option<u64>,
}

impl ArchivedLetters<BufReader<File>> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = regular_file::open_any(path).map_err(|cause| ArchiveError::Io {
            path: path.to_owned(),
            cause: regular_file::advise_if_missing(cause, || {
                "correct the path; `backstop dlq archive --to FILE` writes an archive".to_owned()
            }),
        })?;
        Ok(Self::new(BufReader::new(file), path))
    }
}

impl<R: BufRead> ArchivedLetters<R> {
    /// Reads lines. The path is for errors.
    pub fn new(input: R, path: &Path) -> Self {
        Self {
            input,
            path: path.to_owned(),
            number: 0,
            incomplete: None,
        }
    }

    /// The number of the last line, from 1, if it was skipped because it is incomplete. Known at the end.
    pub fn incomplete(&self) -> Option<u64> {
        self.incomplete
    }

    fn read(&mut self) -> Result<Option<ArchivedLetter>, ArchiveError> {
        let failed = |cause| ArchiveError::Io {
            path: self.path.clone(),
            cause,
        };
        let mut line = Vec::new();
        let mut input = self.input.by_ref().take(LINE_BYTES);
        let read = input.read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_complete = line.ends_with(b"\n");
        match ArchivedLetter::parse_bytes(&line) {
            Ok(letter) => Ok(Some(letter)),
            Err(_)
                if !is_complete
                    && u64::try_from(read).is_ok_and(|it| it < LINE_BYTES)
                    && self.number > 1 =>
            {
                self.incomplete = Some(self.number);
                Ok(None)
            }
            Err(cause) => Err(ArchiveError::Line {
                path: self.path.clone(),
                line: self.number,
                cause,
            }),
        }
    }
}

impl<R: BufRead> Iterator for ArchivedLetters<R> {
    type Item = Result<ArchivedLetter, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str) -> String {
        format!(
            r#"{{"version":1,"id":"{id}","queue":"q","archived":1,"body":"{}","sent":1}}{}"#,
            "x".repeat(70_000),
            "\n"
        )
    }

    fn ids(path: &Path) -> Vec<String> {
        let letters = ArchivedLetters::open(path).unwrap();
        letters.map(|letter| letter.unwrap().id).collect()
    }

    #[test]
    fn lines_are_added_and_one_that_was_cut_off_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        for cut in [0, 1, 10, 69_999, 70_050] {
            let mut archive = ArchiveFile::open(&path).unwrap();
            archive.store(&[line("a"), line("b")]).unwrap();
            drop(archive);
            let whole = std::fs::read(&path).unwrap();
            let torn = line("c");
            std::fs::write(&path, [&whole[..], &torn.as_bytes()[..cut]].concat()).unwrap();
            let before = ids(&path);
            assert_eq!(before.len() % 2, 0);
            drop(ArchiveFile::open(&path).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), whole);
            assert_eq!(ids(&path), before);
        }
    }

    #[test]
    fn a_whole_letter_without_a_line_break_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        let edited = format!("{}{}", line("a"), line("b").trim_end());
        std::fs::write(&path, edited).unwrap();
        let mut archive = ArchiveFile::open(&path).unwrap();
        archive.store(&[line("c")]).unwrap();
        assert_eq!(ids(&path), ["a", "b", "c"]);
    }

    #[test]
    fn an_incomplete_line_is_reported_and_bytes_that_are_no_text_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        let torn = line("c");
        std::fs::write(&path, [&line("a"), &torn[..500]].concat()).unwrap();
        let mut letters = ArchivedLetters::open(&path).unwrap();
        assert_eq!(letters.by_ref().count(), 1);
        assert_eq!(letters.incomplete(), Some(2));

        // Another text must not take the place of a letter's own.
        let damaged = line("b").replacen('x', "\u{e9}", 1).into_bytes();
        let damaged: Vec<_> = damaged.into_iter().filter(|byte| *byte != 0xa9).collect();
        std::fs::write(&path, [line("a").as_bytes(), &damaged].concat()).unwrap();
        let error = ArchivedLetters::open(&path).unwrap().nth(1).unwrap();
        let shown = backstop_core::text::chain(&error.unwrap_err());
        assert!(
            shown.contains("line 2") && shown.contains("UTF-8"),
            "{shown}"
        );
    }

    #[test]
    fn only_an_archive_is_added_to_and_by_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("notes.txt");
        std::fs::write(&other, "my notes\n").unwrap();
        let error = ArchiveFile::open(&other).unwrap_err();
        assert!(
            matches!(error, ArchiveError::Line { line: 1, .. }),
            "{error}"
        );
        std::fs::write(&other, "my notes").unwrap();
        assert!(ArchiveFile::open(&other).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"my notes");

        let path = folder.path().join("letters.jsonl");
        let held = ArchiveFile::open(&path).unwrap();
        let busy = ArchiveFile::open(&path).unwrap_err();
        assert!(matches!(busy, ArchiveError::Busy(_)), "{busy}");
        drop(held);
        ArchiveFile::open(&path).unwrap();
        assert!(ArchiveFile::open(Path::new("/dev/null")).is_err());
    }
}
