//! The file that records are appended to: put aside when it is large or old, and opened again when somebody has moved it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use backstop_core::clock;
use backstop_core::text::of_folder;

use crate::lines::{LineWriter, Lost, WholeLines};
use crate::rotation::{Rotation, put_aside, tidy};

/// How often the name of the file is looked at.
const LOOKED_AT: Duration = Duration::from_secs(1);

/// A file of records.
pub(crate) struct RecordFile {
    path: PathBuf,
    rotation: Rotation,
    lines: WholeLines<File>,
    /// Its device and its number there.
    identity: (u64, u64),
    size: u64,
    began: SystemTime,
    looked: Instant,
    /// Compresses what was put aside.
    tidying: Option<JoinHandle<()>>,
    /// Whether the last try to put it aside or to open it again has failed.
    is_failing: bool,
}

impl RecordFile {
    /// Opens the file. If it does not exist, it is created, and only its owner can read it.
    pub(crate) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let (lines, metadata) = open(path)?;
        let mut file = Self {
            path: path.to_owned(),
            rotation,
            lines,
            identity: identity(&metadata),
            size: metadata.len(),
            began: began(&metadata),
            looked: clock::instant(),
            tidying: None,
            is_failing: false,
        };
        if rotation.is_set() {
            file.tidy();
        }
        Ok(file)
    }

    /// Before a line of this size.
    fn look(&mut self, size: u64) {
        let now = clock::instant();
        let is_large = self
            .rotation
            .size
            .is_some_and(|most| self.size > 0 && self.size.saturating_add(size) > most);
        // After a failure, not before each line.
        let looks = now.duration_since(self.looked) >= LOOKED_AT;
        if !looks && (!is_large || self.is_failing) {
            return;
        }
        self.looked = now;
        let looked = match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.identity => {
                if is_large || self.is_old() {
                    self.rotate()
                } else {
                    Ok(())
                }
            }
            Ok(_) => self.reopen(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.reopen(),
            Err(error) => Err(error),
        };
        let was_failing = std::mem::replace(&mut self.is_failing, looked.is_err());
        if let Err(error) = looked
            && !was_failing
        {
            tracing::warn!(file = %self.path.display(), %error, "the file of decision records can't be put aside or opened again: records go on into the one that is open");
        }
    }

    /// How many of these lines the file has room for: the first one in any case.
    fn fitting(&self, lines: &[Vec<u8>]) -> usize {
        let most = self.rotation.size.filter(|_| !self.is_failing);
        let Some(most) = most else {
            return lines.len();
        };
        let mut size = self.size;
        let fitting = lines.iter().take_while(|line| {
            size = size.saturating_add(size_of(line.len()));
            size <= most
        });
        fitting.count().max(1)
    }

    fn is_old(&self) -> bool {
        let age = clock::system().duration_since(self.began).ok();
        let is_over = |after| age.is_some_and(|age| age >= after);
        self.size > 0 && self.rotation.after.is_some_and(is_over)
    }

    fn rotate(&mut self) -> io::Result<()> {
        put_aside(&self.path)?;
        self.reopen()?;
        self.tidy();
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        let (lines, metadata) = open(&self.path)?;
        self.lines = lines;
        self.identity = identity(&metadata);
        self.size = metadata.len();
        self.began = began(&metadata);
        Ok(())
    }

    /// Compresses and deletes on a thread of its own, one at a time: the next one finds what this one leaves.
    fn tidy(&mut self) {
        if self.tidying.as_ref().is_some_and(|it| !it.is_finished()) {
            return;
        }
        let (path, rotation) = (self.path.clone(), self.rotation);
        let tidying = move || {
            if let Err(error) = tidy(&path, rotation) {
                tracing::warn!(file = %path.display(), %error, "files of decision records that were put aside can't be compressed or deleted");
            }
        };
        let thread = thread::Builder::new().name("old-records".to_owned());
        self.tidying = thread.spawn(tidying).ok();
    }
}

impl LineWriter for RecordFile {
    fn write_lines(&mut self, lines: &[Vec<u8>]) -> Result<(), Lost> {
        let (mut rest, mut all) = (lines, Ok(()));
        while let [first, ..] = rest {
            self.look(size_of(first.len()));
            let (fitting, later) = rest.split_at(self.fitting(rest));
            let written = self.lines.write_lines(fitting);
            let bytes: usize = fitting.iter().map(Vec::len).sum();
            let lost = written.as_ref().map_or_else(|lost| lost.bytes, |()| 0);
            self.size = self.size.saturating_add(size_of(bytes - lost));
            if let Err(lost) = written {
                all = Err(lost.after(all));
            }
            rest = later;
        }
        all
    }
}

fn size_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Opens a file to append to it. If a crash left an incomplete last line, a line break ends it first.
fn open(path: &Path) -> io::Result<(WholeLines<File>, Metadata)> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(of_folder)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    let metadata = file.metadata()?;
    Ok((WholeLines::to(file, last != [b'\n']), metadata))
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Since when there is the file; where its file system does not say, since now.
fn began(metadata: &Metadata) -> SystemTime {
    metadata.created().unwrap_or_else(|_| clock::system())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotation::files_of;

    impl RecordFile {
        fn write_line(&mut self, line: &[u8]) -> Result<(), Lost> {
            self.write_lines(&[line.to_vec()])
        }
    }

    fn lines(path: &Path) -> usize {
        fs::read_to_string(path).unwrap().lines().count()
    }

    /// The time passes after which the name of the file is looked at.
    fn look_soon(file: &mut RecordFile) {
        file.looked = file.looked.checked_sub(LOOKED_AT).unwrap();
    }

    #[test]
    fn a_file_that_was_moved_or_deleted_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let moved = folder.path().join("decisions.jsonl.1");
        let mut file = RecordFile::open(&path, Rotation::default()).unwrap();
        file.write_line(b"{}\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        // Within a second, lines go into the moved file, where they are not lost.
        file.write_line(b"{}\n").unwrap();
        look_soon(&mut file);
        file.write_line(b"{}\n").unwrap();
        assert_eq!((lines(&moved), lines(&path)), (2, 1));
        fs::remove_file(&path).unwrap();
        look_soon(&mut file);
        file.write_line(b"{}\n").unwrap();
        assert_eq!(lines(&path), 1);
    }

    #[test]
    fn a_large_file_is_put_aside_before_the_line_that_it_has_no_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let rotation = Rotation {
            size: Some(10),
            ..Rotation::default()
        };
        let mut file = RecordFile::open(&path, rotation).unwrap();
        for _ in 0..4 {
            file.write_line(b"{\"a\":1}\n").unwrap();
            file.tidying
                .take()
                .into_iter()
                .for_each(|it| it.join().unwrap());
            // Names have milliseconds.
            let before = clock::now();
            while clock::now() == before {}
        }
        // A line that is longer than a file may be is one all the same.
        file.write_line(&[&[b'x'; 50][..], b"\n"].concat()).unwrap();
        file.tidying
            .take()
            .into_iter()
            .for_each(|it| it.join().unwrap());
        let files = files_of(&path);
        assert_eq!(files.len(), 5);
        assert_eq!(lines(&path), 1);
    }

    #[test]
    fn an_old_file_is_put_aside_and_an_empty_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let rotation = Rotation {
            after: Some(Duration::from_secs(3_600)),
            ..Rotation::default()
        };
        let mut file = RecordFile::open(&path, rotation).unwrap();
        let age = |file: &mut RecordFile| {
            file.began = clock::system() - Duration::from_secs(7_200);
            look_soon(file);
        };
        age(&mut file);
        file.write_line(b"{}\n").unwrap();
        assert_eq!(files_of(&path).len(), 1);
        age(&mut file);
        file.write_line(b"{}\n").unwrap();
        file.tidying
            .take()
            .into_iter()
            .for_each(|it| it.join().unwrap());
        assert_eq!(files_of(&path).len(), 2);
        // A clock that was set back makes no file old.
        file.began = clock::system() + Duration::from_secs(86_400);
        look_soon(&mut file);
        file.write_line(b"{}\n").unwrap();
        assert_eq!(files_of(&path).len(), 2);
    }

    #[test]
    fn where_no_file_can_be_put_aside_records_go_on_into_the_open_one() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("records");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("decisions.jsonl");
        let rotation = Rotation {
            size: Some(4),
            ..Rotation::default()
        };
        let mut file = RecordFile::open(&path, rotation).unwrap();
        file.write_line(b"{}\n").unwrap();
        // The folder is gone, and its name is that of a file.
        fs::rename(&inner, folder.path().join("elsewhere")).unwrap();
        fs::write(&inner, "").unwrap();
        for _ in 0..3 {
            file.write_line(b"{}\n").unwrap();
        }
        assert!(file.is_failing);
        assert_eq!(lines(&folder.path().join("elsewhere/decisions.jsonl")), 4);
    }
}
