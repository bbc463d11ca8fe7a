//! Writes decision records to a file or to standard output.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::lock::lock;
use backstop_core::lost;
use backstop_core::text::visible;
use serde::Serialize;

use crate::file::RecordFile;
use crate::life_event::EventRecord;
use crate::lines::{LineWriter, WholeLines};
use crate::record::{DecisionRecord, Observer};
use crate::rotation::Rotation;

/// Where decision records are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Appended to a file.
    File {
        /// Where it is.
        path: PathBuf,
        /// When it is put aside.
        rotation: Rotation,
    },
}

/// Records can't be written.
#[derive(Debug, thiserror::Error)]
#[error("can't write decision records to {}", path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// The most records in the buffer.
const WAITING: usize = 10_000;

/// The most bytes in the buffer.
const WAITING_BYTES: usize = 64 << 20;

/// How long the first record of a batch waits for others. To wake the thread that writes, and to call the system, for each of them costs more than to make the records.
const TOGETHER: Duration = Duration::from_millis(1);

/// The bytes of a batch: the last record may exceed them.
const BATCH: usize = 64 << 10;

/// How long a shutdown waits until the buffer is written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// An entry of the buffer.
#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

/// Writes each record as a line, on its own thread. If the reader stops reading, records are dropped and messages are unaffected.
#[derive(Debug)]
pub struct Recorder {
    lines: Option<SyncSender<Entry>>,
    /// The bytes in the buffer.
    waiting: Arc<AtomicUsize>,
    ended: Mutex<Receiver<()>>,
    dropping: AtomicBool,
    /// Whether `close` has waited in vain.
    is_stalled: AtomicBool,
    /// The first write that failed.
    failure: Arc<OnceLock<io::Error>>,
}

impl Recorder {
    /// Writes to the configured destination.
    pub fn open(destination: &Destination) -> Result<Arc<Self>, RecordError> {
        let (path, opened) = match destination {
            Destination::Stdout => (PathBuf::from("standard output"), Self::to_stdout()),
            Destination::File { path, rotation } => (path.clone(), Self::rotating(path, *rotation)),
        };
        opened.map_err(|cause| RecordError { path, cause })
    }

    /// Waits until the buffer is written, for at most two seconds. Called before a shutdown, which does not wait for tasks that hold this recorder too. Blocks.
    pub fn close(&self) {
        self.close_within(SHUTDOWN_TIMEOUT);
    }

    fn close_within(&self, timeout: Duration) {
        let started = clock::instant();
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            if self.flush(left) {
                return;
            }
            if left.is_zero() {
                break;
            }
            // The buffer is full.
            thread::sleep(Duration::from_millis(10));
        }
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Waits until the buffer is written, for at most `timeout`; whether it is. Blocks.
    pub fn flush(&self, timeout: Duration) -> bool {
        let (done, written) = sync_channel(1);
        let is_queued = self
            .lines
            .as_ref()
            .is_some_and(|lines| lines.try_send(Entry::Flush(done)).is_ok());
        is_queued && written.recv_timeout(timeout).is_ok()
    }

    /// Why records are missing, after [`close`](Self::close): the first write that failed, or a reader that has stopped. `None` if every record is written.
    pub fn failure(&self) -> Option<io::Error> {
        if let Some(error) = self.failure.get() {
            return Some(io::Error::new(error.kind(), error.to_string()));
        }
        let is_stalled = self.is_stalled.load(Ordering::Relaxed);
        is_stalled.then(|| io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"))
    }

    /// Appends to a file. If it does not exist, it is created, and only its owner can read it. If a crash left an incomplete last line, a line break ends it first. If somebody moves it, another one is created within a second.
    pub fn to_file(path: &Path) -> io::Result<Arc<Self>> {
        Self::rotating(path, Rotation::default())
    }

    fn rotating(path: &Path, rotation: Rotation) -> io::Result<Arc<Self>> {
        Self::to(RecordFile::open(path, rotation)?)
    }

    /// Writes to standard output.
    pub fn to_stdout() -> io::Result<Arc<Self>> {
        // The buffer of `io::stdout()` would not say which lines it has written.
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Self::to(WholeLines::to(stdout, false))
    }

    fn to(writer: impl LineWriter + Send + 'static) -> io::Result<Arc<Self>> {
        let (lines, entries) = sync_channel(WAITING);
        let (done, ended) = sync_channel(1);
        let waiting = Arc::<AtomicUsize>::default();
        let bytes = Arc::clone(&waiting);
        let failure = Arc::<OnceLock<io::Error>>::default();
        let failed = Arc::clone(&failure);
        thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || {
                write(writer, &entries, &bytes, &failed);
                let _ = done.send(());
            })?;
        Ok(Arc::new(Self {
            lines: Some(lines),
            waiting,
            ended: Mutex::new(ended),
            dropping: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            failure,
        }))
    }

    /// Adds a line to the buffer, unless the buffer is full.
    fn add(&self, line: Vec<u8>) -> bool {
        let Some(lines) = &self.lines else {
            return false;
        };
        let size = line.len();
        let waiting = self.waiting.fetch_add(size, Ordering::Relaxed);
        let fits = waiting.saturating_add(size) <= WAITING_BYTES;
        let added = fits && lines.try_send(Entry::Line(line)).is_ok();
        if !added {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
        added
    }
}

impl Recorder {
    /// Adds a record as a line, unless the buffer is full. That is logged once until it has room again.
    fn record(&self, record: &impl Serialize) {
        let mut line = match serde_json::to_string(record) {
            Ok(line) => visible(&line).into_owned(),
            Err(error) => {
                tracing::error!(%error, "a decision could not be recorded");
                return;
            }
        };
        line.push('\n');
        let added = self.add(line.into_bytes());
        if !added {
            lost::RECORDS.add();
        }
        let was_dropping = self.dropping.swap(!added, Ordering::Relaxed);
        if !added && !was_dropping {
            tracing::error!(
                "the reader of the decision records has stopped: records are dropped until it reads again"
            );
        }
    }
}

impl Observer for Recorder {
    fn decided(&self, record: &DecisionRecord) {
        self.record(record.without_secrets().as_ref());
    }

    fn happened(&self, event: &EventRecord) {
        self.record(event);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.lines.take());
        if *self.is_stalled.get_mut() {
            return;
        }
        let ended = lock(&self.ended);
        let _ = ended.recv_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// Writes the lines, as many at once as there are. A full disk or a closed pipe is logged once.
fn write(
    mut writer: impl LineWriter,
    entries: &Receiver<Entry>,
    waiting: &AtomicUsize,
    failure: &OnceLock<io::Error>,
) {
    let mut failing = false;
    let mut batch = Batch::default();
    while batch.collect(entries) {
        let written = writer.write_lines(&batch.lines);
        waiting.fetch_sub(batch.bytes, Ordering::Relaxed);
        match written {
            Ok(()) => failing &= batch.lines.is_empty(),
            Err(lost) => {
                (0..lost.lines).for_each(|_| lost::RECORDS.add());
                if !failing {
                    failing = true;
                    let error = lost.error;
                    tracing::error!(%error, "decision records can't be written: messages are handled without records");
                    let _ = failure.set(error);
                }
            }
        }
        if let Some(done) = batch.flush.take() {
            let _ = done.send(());
        }
    }
}

/// The lines that are written at once.
#[derive(Default)]
struct Batch {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// Who asked for a flush after these lines.
    flush: Option<SyncSender<()>>,
}

impl Batch {
    /// Waits for the next entries. `false` if there will be none.
    fn collect(&mut self, entries: &Receiver<Entry>) -> bool {
        let is_behind = self.bytes >= BATCH;
        self.lines.clear();
        self.bytes = 0;
        let Ok(first) = entries.recv() else {
            return false;
        };
        if matches!(first, Entry::Line(_)) && !is_behind {
            thread::sleep(TOGETHER);
        }
        let mut next = Some(first);
        while let Some(entry) = next {
            match entry {
                Entry::Line(line) => {
                    self.bytes += line.len();
                    self.lines.push(line);
                }
                Entry::Flush(done) => {
                    self.flush = Some(done);
                    break;
                }
            }
            let has_room = self.bytes < BATCH;
            next = has_room.then(|| entries.try_recv().ok()).flatten();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A disk that has room for so many bytes, is full once, and then has room for the rest.
    struct FullOnce(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for FullOnce {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = match std::mem::replace(&mut self.1, usize::MAX) {
                0 => return Err(io::Error::other("no space left on device")),
                room => bytes.len().min(room),
            };
            if taken < bytes.len() {
                self.1 = 0;
            }
            self.0.lock().unwrap().extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A reader that has stopped reading until the test lets it continue.
    struct Stalled(Receiver<()>, Arc<AtomicUsize>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_buffer_is_limited_in_bytes() {
        let (go_on, stalled) = sync_channel(0);
        let written = Arc::<AtomicUsize>::default();
        let recorder = Recorder::to(WholeLines::to(
            Stalled(stalled, Arc::clone(&written)),
            false,
        ))
        .unwrap();
        let line = |size: usize| vec![b'x'; size];
        let added = (0..100).filter(|_| recorder.add(line(1 << 20))).count();
        assert_eq!(added, 64);
        assert!(!recorder.add(line(1)));
        assert_eq!(recorder.waiting.load(Ordering::Relaxed), WAITING_BYTES);
        // It accepts records again once the reader reads.
        drop(go_on);
        recorder.flush(SHUTDOWN_TIMEOUT);
        assert_eq!(written.load(Ordering::Relaxed), WAITING_BYTES);
        assert!(recorder.add(line(1)));
    }

    #[test]
    fn a_shutdown_waits_once_for_a_reader_that_has_stopped() {
        let (go_on, stalled) = sync_channel(0);
        let recorder =
            Recorder::to(WholeLines::to(Stalled(stalled, Arc::default()), false)).unwrap();
        assert!(recorder.add(b"{}\n".to_vec()));
        recorder.close_within(Duration::ZERO);
        let started = clock::instant();
        drop(recorder);
        assert!(started.elapsed() < SHUTDOWN_TIMEOUT);
        drop(go_on);
    }

    #[test]
    fn a_shutdown_writes_the_records_that_others_hold_the_recorder_of() {
        let disk = Arc::new(Mutex::new(Vec::new()));
        let recorder = Recorder::to(WholeLines::to(
            FullOnce(Arc::clone(&disk), usize::MAX),
            false,
        ))
        .unwrap();
        for _ in 0..WAITING {
            assert!(recorder.add(b"{}\n".to_vec()));
        }
        recorder.close();
        assert_eq!(disk.lock().unwrap().len(), 3 * WAITING);
        drop(recorder);
    }

    #[test]
    fn a_line_that_a_full_disk_cut_off_damages_no_other() {
        let disk = Arc::new(Mutex::new(Vec::new()));
        let (lines, waiting) = sync_channel(3);
        for line in ["{\"a\":1}\n", "{\"b\":2}\n", "{\"c\":3}\n"] {
            lines.send(Entry::Line(line.as_bytes().to_vec())).unwrap();
        }
        drop(lines);
        let bytes = AtomicUsize::new(24);
        let failure = OnceLock::new();
        let full = FullOnce(Arc::clone(&disk), 12);
        write(WholeLines::to(full, false), &waiting, &bytes, &failure);
        assert_eq!(bytes.into_inner(), 0);
        assert_eq!(
            failure.get().unwrap().to_string(),
            "no space left on device"
        );
        assert_eq!(
            String::from_utf8_lossy(&disk.lock().unwrap()),
            "{\"a\":1}\n{\"b\"\n{\"c\":3}\n"
        );
    }
}
