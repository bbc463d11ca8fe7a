//! What a run has done, one JSON object a line, on the disk before the next step is taken.
//!
//! Before letters are sent, their ids are written as `sending`; when their target has accepted them, as `sent`, with their new ids; when they are deleted from the dead-letter queue, as `deleted`. A run that is killed loses nothing: what is `sent` is only deleted by the next one, and what is `sending` without more may or may not have arrived.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use backstop_core::lock::lock;
use backstop_files::FileWork;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::RedriveError;
use super::entry::Entry;
use super::shared::SharedRun;
use crate::json_lines;

/// The longest line that is read, in bytes.
const LINE_BYTES: u64 = 64 << 20;

/// Reads the entries of a journal, in their order. Returns the numbers of the lines, from 1, that can't be read: somebody or a disk has damaged them. A last line that was cut off when its run was killed is none of them: nothing was done that it says.
pub(super) fn read(path: &Path, mut each: impl FnMut(Entry)) -> io::Result<Vec<u64>> {
    read_numbered(path, |_, entry| each(entry))
}

/// As [`read`], with the number of each line.
pub(super) fn read_numbered(path: &Path, mut each: impl FnMut(u64, Entry)) -> io::Result<Vec<u64>> {
    let mut damaged = Vec::new();
    json_lines::each_line(path, LINE_BYTES, |number, line| {
        let is_short = u64::try_from(line.len()).is_ok_and(|it| it < LINE_BYTES);
        match Entry::of_line(line) {
            Some(entry) => each(number, entry),
            None if is_short && !line.ends_with(b"\n") => {}
            None => damaged.push(number),
        }
        Ok(())
    })?;
    Ok(damaged)
}

/// Writes the journal.
#[derive(Debug, Clone)]
pub(super) enum Journal {
    /// On a thread of its own. Entries that arrive while the disk works share the next write.
    OnAThread(mpsc::Sender<Line>),
    /// By the task that adds entries.
    InPlace(Arc<Mutex<Writing<Target>>>),
}

#[derive(Debug)]
pub(super) struct Line {
    text: Vec<u8>,
    done: oneshot::Sender<io::Result<()>>,
}

impl Journal {
    /// Opens a journal to add to it. It is a copy if the run is `shared`; such a journal always has a thread.
    pub(super) fn open(
        path: &Path,
        shared: Option<Arc<SharedRun>>,
        work: FileWork,
    ) -> io::Result<Self> {
        let mut file = File::options()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        // A line that was cut off must not join the next one.
        let is_whole = |line: &[u8]| Entry::of_line(line).is_some();
        json_lines::end(&mut file, LINE_BYTES, is_whole)?;
        let in_place = work == FileWork::InPlace && shared.is_none();
        let target = Target {
            file,
            shared: shared.map(|run| (run, Handle::current())),
        };
        let writing = Writing::to(target);
        if in_place {
            return Ok(Self::InPlace(Arc::new(Mutex::new(writing))));
        }
        let (lines, pending) = mpsc::channel();
        std::thread::Builder::new()
            .name("redrive-journal".to_owned())
            .spawn(move || write_all(writing, &pending))?;
        Ok(Self::OnAThread(lines))
    }

    /// Adds entries. They are on the disk when this returns.
    pub(super) async fn add(&self, entries: &[Entry]) -> Result<(), RedriveError> {
        let mut text = Vec::new();
        for entry in entries {
            text.extend(entry.line().map_err(io::Error::from)?);
        }
        let lines = match self {
            Self::OnAThread(lines) => lines,
            Self::InPlace(writing) => return Ok(lock(writing).add(&text)?),
        };
        let (done, written) = oneshot::channel();
        let ended = || io::Error::other("the journal's thread has ended");
        lines.send(Line { text, done }).map_err(|_| ended())?;
        written.await.map_err(|_| ended())??;
        Ok(())
    }
}

/// Where lines last.
pub(super) trait Lasting {
    /// Adds lines. They last when this returns.
    fn add(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// The file of a journal, which is a copy if the run is shared.
#[derive(Debug)]
pub(super) struct Target {
    file: File,
    shared: Option<(Arc<SharedRun>, Handle)>,
}

impl Lasting for Target {
    fn add(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Some((run, runtime)) = &self.shared {
            runtime.block_on(run.add(lines))?;
        }
        self.file.write_all(lines)?;
        self.file.sync_data()
    }
}

/// Adds lines to a file. After a failed write, none is added any more: it would join the part of a line that a full disk has taken.
#[derive(Debug)]
pub(super) struct Writing<F> {
    file: F,
    failure: Option<(io::ErrorKind, String)>,
}

impl<F: Lasting> Writing<F> {
    fn to(file: F) -> Self {
        Self {
            file,
            failure: None,
        }
    }

    fn add(&mut self, text: &[u8]) -> io::Result<()> {
        if self.failure.is_none() {
            let written = self.file.add(text).err();
            self.failure =
                written.map(|error| (error.kind(), format!("can't write the journal: {error}")));
        }
        match &self.failure {
            None => Ok(()),
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
        }
    }
}

/// Writes lines until nobody adds any.
fn write_all(mut writing: Writing<impl Lasting>, pending: &mpsc::Receiver<Line>) {
    while let Ok(first) = pending.recv() {
        let mut lines = vec![first];
        lines.extend(pending.try_iter());
        let text: Vec<u8> = lines.iter().flat_map(|line| line.text.clone()).collect();
        let written = writing.add(&text);
        for line in lines {
            let result = written
                .as_ref()
                .copied()
                .map_err(|error| io::Error::new(error.kind(), error.to_string()));
            // The run may have ended meanwhile.
            let _ = line.done.send(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(id: &str) -> Entry {
        Entry::Sending {
            ids: vec![id.to_owned()],
        }
    }

    fn entries(path: &Path) -> Vec<Entry> {
        let mut entries = Vec::new();
        read(path, |entry| entries.push(entry)).unwrap();
        entries
    }

    #[tokio::test]
    async fn a_line_that_was_cut_off_is_left_out_and_joins_no_other() {
        for work in [FileWork::OnAThread, FileWork::InPlace] {
            cut_off_lines(work).await;
        }
    }

    async fn cut_off_lines(work: FileWork) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        assert_eq!(entries(&path), []);
        let add = async |id: &str| {
            let journal = Journal::open(&path, None, work).unwrap();
            journal.add(&[sending(id)]).await.unwrap();
        };
        add("a").await;
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":\"sent\",\"at\":1,\"lett")
            .unwrap();
        assert_eq!(entries(&path), [sending("a")]);
        assert!(read(&path, |_| ()).unwrap().is_empty());
        add("b").await;
        assert_eq!(entries(&path), [sending("a"), sending("b")]);
        // Only the line break is missing.
        let whole = serde_json::to_string(&sending("c")).unwrap();
        file.write_all(whole.as_bytes()).unwrap();
        add("d").await;
        assert_eq!(entries(&path).len(), 4);
        assert!(read(&path, |_| ()).unwrap().is_empty());
    }

    #[test]
    fn a_line_of_which_a_byte_was_changed_is_no_other_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let written = [
            sending("a"),
            Entry::Deleted {
                ids: vec!["b".to_owned()],
            },
        ];
        let lines: Vec<_> = written
            .iter()
            .flat_map(|entry| entry.line().unwrap())
            .collect();
        for at in 0..lines.len() {
            for byte in [b'\n', b'9', b'c', lines[at] ^ 1, lines[at] ^ 0x20] {
                let mut changed = lines.clone();
                changed[at] = byte;
                std::fs::write(&path, &changed).unwrap();
                let mut found = Vec::new();
                let damaged = read(&path, |entry| found.push(entry)).unwrap();
                assert!(
                    found.iter().all(|it| written.contains(it)),
                    "{byte} at {at}"
                );
                let is_cut = found.len() == 1 && !changed.ends_with(b"\n");
                assert!(
                    found.len() == 2 || is_cut || !damaged.is_empty(),
                    "{byte} at {at}"
                );
            }
        }
    }

    #[test]
    fn a_journal_of_an_earlier_version_has_no_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = serde_json::to_string(&sending("a")).unwrap();
        std::fs::write(&path, format!("{line}\n")).unwrap();
        assert_eq!(entries(&path), [sending("a")]);
    }

    #[test]
    fn damaged_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let line = serde_json::to_string(&sending("a")).unwrap();
        let damaged = line.replace("sending", "s\u{1}nding");
        let unknown = line.replace("sending", "rested");
        let text = format!("{line}\n{damaged}\n\n{line}\n{unknown}\n");
        std::fs::write(&path, [text.as_bytes(), b"\xff\n"].concat()).unwrap();
        let mut seen = 0;
        assert_eq!(read(&path, |_| seen += 1).unwrap(), [2, 3, 5, 6]);
        assert_eq!(seen, 2);
    }

    /// A disk that has space for so many further bytes.
    struct Disk {
        file: File,
        space: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.space);
            self.space -= fits;
            match fits {
                0 => {
                    // Somebody makes space.
                    self.space = 1_000;
                    Err(io::ErrorKind::StorageFull.into())
                }
                _ => self.file.write(bytes.get(..fits).unwrap_or_default()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lasting for Disk {
        fn add(&mut self, lines: &[u8]) -> io::Result<()> {
            self.write_all(lines)
        }
    }

    #[test]
    fn after_a_full_disk_no_line_joins_the_part_that_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let disk = Disk {
            file: File::create(&path).unwrap(),
            space: 10,
        };
        let (lines, pending) = mpsc::channel();
        let mut answers = Vec::new();
        let writer = std::thread::spawn(move || {
            write_all(Writing::to(disk), &pending);
        });
        for id in ["a", "b"] {
            let mut text = serde_json::to_vec(&sending(id)).unwrap();
            text.push(b'\n');
            let (done, result) = oneshot::channel();
            lines.send(Line { text, done }).unwrap();
            answers.push(result.blocking_recv().unwrap());
        }
        drop(lines);
        writer.join().unwrap();
        for answer in answers {
            assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(std::fs::read(&path).unwrap().len(), 10);
    }
}
