//! The lines of the input, read by a thread of its own, a bounded number and a bounded number of bytes ahead.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use backstop_files::regular_file;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::checkpoint::Checkpoint;
use super::read_hash::{ReadHash, Start};
use crate::error::{CommandError, Context, Exit, Result, unreadable_input};

/// How many lines are read ahead.
const AHEAD: usize = 1_000;

/// How many bytes are read ahead.
const AHEAD_BYTES: u32 = 32 << 20;

/// The longest line that can be an entry, with its line ending: a message or an item of the largest size, with every character escaped.
const LONGEST: u64 = 16 << 20;

/// What is read at once of a longer line.
const PIECE: u64 = 1 << 20;

/// What is wrong with a line that is longer.
pub(super) const TOO_LONG: &str = "longer than 16 MiB";

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Where it starts and where the next one starts, in bytes.
    pub(super) span: (u64, u64),
}

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) place: Place,
    /// Its bytes without the line feed at its end.
    pub(super) bytes: Vec<u8>,
}

/// What is read next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Line(Line),
    /// The next bytes of a line that is too long to be held, without the line feed at its end.
    Piece {
        bytes: Vec<u8>,
        /// Set with the last piece.
        end: Option<Place>,
    },
}

impl Part {
    fn size(&self) -> u32 {
        let (Self::Line(Line { bytes, .. }) | Self::Piece { bytes, .. }) = self;
        u32::try_from(bytes.len()).unwrap_or(u32::MAX)
    }
}

/// The parts of the input, in order.
pub(super) struct Lines(mpsc::Receiver<Ahead>);

/// A part that was read ahead, the hash of everything up to its end, and its share of the bytes.
type Ahead = io::Result<(Part, ReadHash, OwnedSemaphorePermit)>;

impl Lines {
    /// The next part, and the hash of everything up to its end.
    pub(super) fn poll_next(
        &mut self,
        task: &mut Task<'_>,
    ) -> Poll<Option<io::Result<(Part, ReadHash)>>> {
        let next = self.0.poll_recv(task);
        next.map(|next| next.map(|part| part.map(|(part, hash, _share)| (part, hash))))
    }
}

/// The input.
pub(super) struct Input {
    reader: BufReader<Box<dyn Read + Send>>,
    /// The file, if it is a regular one.
    pub(super) file: Option<File>,
    /// The length of a regular file.
    pub(super) length: Option<u64>,
    /// Where an interrupted delivery goes on, and the hash of what is before.
    resumed: Option<(Checkpoint, ReadHash)>,
}

/// Says what an input is, if it is missing.
fn unusable(path: &Path) -> impl FnOnce(io::Error) -> CommandError {
    let expected = "expected a file with one entry in each line, or - for standard input";
    unreadable_input("the entries", path, expected)
}

impl Input {
    /// Opens a file, or standard input as `-`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let with = |reader, file, length| Self {
            reader: BufReader::with_capacity(1 << 20, reader),
            file,
            length,
            resumed: None,
        };
        if path == Path::new("-") {
            return Ok(with(Box::new(io::stdin()), None, None));
        }
        let file = regular_file::open_any(path).map_err(unusable(path))?;
        let metadata = file.metadata().context(path.display())?;
        let length = metadata.is_file().then_some(metadata.len());
        let regular = length.map(|_| file.try_clone()).transpose()?;
        Ok(with(Box::new(file), regular, length))
    }

    /// Whether there is such an input, before anything else is opened.
    pub(super) fn check(path: &Path) -> Result<()> {
        if path == Path::new("-") {
            return Ok(());
        }
        let found = regular_file::described(path);
        found.map(drop).map_err(unusable(path))
    }

    /// Excludes other deliveries of a regular file until the result is dropped, or the process ends.
    pub(super) fn lock(&self, path: &Path) -> Result<Option<File>> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let lock = file.try_clone()?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Err(Exit::Usage.because(format!(
                "another delivery of {} is running: wait until it ends, or stop it",
                path.display()
            ))),
            // A file system without locks.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "can't lock the input");
                Ok(None)
            }
        }
    }

    /// Goes on in a regular file, of which `start` has the hashes.
    pub(super) fn resume(&mut self, checkpoint: &Checkpoint, start: &Start) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(checkpoint.first()))?;
        }
        self.resumed = Some((checkpoint.clone(), start.first.clone()));
        Ok(())
    }

    /// Starts to read.
    pub(super) fn read(self) -> Lines {
        let (sender, lines) = mpsc::channel(AHEAD);
        let runtime = Handle::current();
        // Not a task that the end of the command would wait for.
        std::thread::spawn(move || {
            let room = Arc::new(Semaphore::new(AHEAD_BYTES as usize));
            let is_settled = |place: Place| {
                let resumed = self.resumed.as_ref();
                resumed.is_some_and(|(it, _)| it.is_settled(place.span.0))
            };
            let (start, number, hash) = match &self.resumed {
                Some((checkpoint, hash)) => (checkpoint.first(), checkpoint.line, hash.clone()),
                None => (0, 1, ReadHash::default()),
            };
            let mut cursor = Cursor::new(self.reader, start, number);
            // Nothing goes on with what is not in a file.
            cursor.hash = self.length.map(|_| hash);
            loop {
                let part = match cursor.next() {
                    Ok(None) => return,
                    Ok(Some(Part::Line(line))) if is_settled(line.place) => continue,
                    Ok(Some(Part::Piece { .. })) if is_settled(cursor.place()) => continue,
                    Ok(Some(part)) => part,
                    Err(error) => {
                        let _ = sender.blocking_send(Err(error));
                        return;
                    }
                };
                let share = Arc::clone(&room).acquire_many_owned(part.size());
                let Ok(share) = runtime.block_on(share) else {
                    return;
                };
                let hash = cursor.hash.clone().unwrap_or_default();
                if sender.blocking_send(Ok((part, hash, share))).is_err() {
                    return;
                }
            }
        });
        Lines(lines)
    }
}

/// Reads part after part.
struct Cursor<R> {
    reader: R,
    /// Where the line is that was read last: all of it, or a part.
    number: u64,
    start: u64,
    position: u64,
    /// It goes on.
    is_long: bool,
    /// The hash of everything before `position`, if it is needed.
    hash: Option<ReadHash>,
}

impl<R: BufRead> Cursor<R> {
    /// Begins with line `number`, which starts at `start`.
    fn new(reader: R, start: u64, number: u64) -> Self {
        Self {
            reader,
            number: number.saturating_sub(1),
            start,
            position: start,
            is_long: false,
            hash: None,
        }
    }

    fn place(&self) -> Place {
        Place {
            number: self.number,
            span: (self.start, self.position),
        }
    }

    fn next(&mut self) -> io::Result<Option<Part>> {
        let most = if self.is_long { PIECE } else { LONGEST + 1 };
        let mut bytes = Vec::new();
        let read = (&mut self.reader)
            .take(most)
            .read_until(b'\n', &mut bytes)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read == 0 && !self.is_long {
            return Ok(None);
        }
        if !self.is_long {
            self.number += 1;
            self.start = self.position;
        }
        self.position += read;
        if let Some(hash) = &mut self.hash {
            hash.add(&bytes);
        }
        let is_ended = read < most || bytes.ends_with(b"\n");
        bytes.pop_if(|end| *end == b'\n');
        if !self.is_long && read <= LONGEST {
            let place = self.place();
            return Ok(Some(Part::Line(Line { place, bytes })));
        }
        self.is_long = !is_ended;
        let end = is_ended.then(|| self.place());
        Ok(Some(Part::Piece { bytes, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(mut input: &[u8]) -> Vec<Part> {
        let mut cursor = Cursor::new(&mut input, 0, 1);
        std::iter::from_fn(|| cursor.next().unwrap()).collect()
    }

    fn line(number: u64, span: (u64, u64), bytes: &[u8]) -> Part {
        Part::Line(Line {
            place: Place { number, span },
            bytes: bytes.to_owned(),
        })
    }

    #[test]
    fn lines_have_their_place_in_the_file_and_their_bytes() {
        let expected = [
            line(1, (0, 5), b"one\r"),
            line(2, (5, 6), b""),
            line(3, (6, 9), b"\xff\x00"),
            line(4, (9, 12), b"two"),
        ];
        assert_eq!(parts(b"one\r\n\n\xff\x00\ntwo"), expected);
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_pieces_and_the_next_one_follows() {
        let most = usize::try_from(LONGEST).unwrap();
        for more in [1, 2, 7 << 18, 2 << 20] {
            for ending in ["", "\n", "\nnext"] {
                let long = vec![b'x'; most + more];
                let input = [&long, ending.as_bytes()].concat();
                let (mut joined, mut ends, mut lines) = (Vec::new(), Vec::new(), Vec::new());
                for part in parts(&input) {
                    match part {
                        Part::Piece { bytes, end } => {
                            joined.extend(bytes);
                            ends.extend(end);
                        }
                        Part::Line(line) => lines.push(line.bytes),
                    }
                }
                assert!(joined == long, "{more} {ending:?}");
                let span = (0, (long.len() + ending.len().min(1)) as u64);
                assert_eq!(ends, [Place { number: 1, span }]);
                let next: &[&[u8]] = if ending.len() > 1 { &[b"next"] } else { &[] };
                assert_eq!(lines, next);
            }
        }
    }

    #[test]
    fn the_longest_line_is_one() {
        let most = usize::try_from(LONGEST).unwrap();
        let input = [&vec![b'x'; most - 1][..], b"\n"].concat();
        assert!(matches!(parts(&input)[..], [Part::Line(_)]));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_bytes_are_read_ahead_than_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let line = [vec![b'x'; 12 << 20], b"\n".to_vec()].concat();
        std::fs::write(&path, line.repeat(5)).unwrap();
        let mut lines = Input::open(&path).unwrap().read();
        let mut count = 0;
        while let Some(part) = std::future::poll_fn(|task| lines.poll_next(task)).await {
            assert!(matches!(part.unwrap(), (Part::Line(_), _)));
            assert!(lines.0.len() <= 2, "{} lines are ahead", lines.0.len());
            count += 1;
        }
        assert_eq!(count, 5);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_line_comes_with_the_hash_of_everything_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let text = b"one\r\n\n\xff\ntwo";
        std::fs::write(&path, text).unwrap();
        let mut lines = Input::open(&path).unwrap().read();
        for end in [5, 6, 8, 11] {
            let next = std::future::poll_fn(|task| lines.poll_next(task)).await;
            let (_, hash) = next.unwrap().unwrap();
            let mut expected = ReadHash::default();
            expected.add(&text[..end]);
            assert_eq!(hash.digest(), expected.digest());
        }
    }

    #[test]
    fn two_deliveries_of_a_file_exclude_each_other_and_a_lock_ends_with_its_delivery() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "one\n").unwrap();
        std::fs::hard_link(&path, folder.path().join("link")).unwrap();
        let lock = Input::open(&path).unwrap().lock(&path).unwrap();
        assert!(lock.is_some());
        let other = Input::open(&folder.path().join("link")).unwrap();
        let refused = other.lock(&path).unwrap_err().to_string();
        assert!(refused.contains("is running"), "{refused}");
        drop(lock);
        assert!(other.lock(&path).unwrap().is_some());
    }
}
