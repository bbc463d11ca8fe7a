//! The decision record: one JSON line for every decision, with all that it takes to decide again.
//!
//! `host/docs/decision-record.md` documents it field by field.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Destination;
use crate::decision::Decision;
use crate::failure::{Failure, Timestamp};
use crate::policy::{LogLine, PartName};
use crate::shadow::Shadowed;

/// One decision and everything that went into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionRecord {
    /// When it was decided.
    pub time: Timestamp,
    /// The queue's name in the configuration.
    pub queue: String,
    /// The parts of the policy that was asked, with their settings.
    pub policy: Vec<PartName>,
    /// What the policy was told.
    #[serde(deserialize_with = "backstop_json::only_object")]
    pub failure: Failure,
    /// What it read of the payload, by pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub payload: BTreeMap<String, Option<String>>,
    /// How often it read something of the payload that is left out here, since the record would have grown too large.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub payload_left_out: u64,
    /// What came of it.
    #[serde(flatten)]
    pub decision: Decision,
    /// What the policy wrote to its log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// Fuel burnt.
    pub fuel: u64,
    /// How long asking took, in microseconds.
    pub took_us: u64,
    /// What a shadow made of the same failure, where the queue has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadowed>,
}

impl DecisionRecord {
    /// About how much it holds on to: the texts whose length a message decides.
    pub(crate) fn size(&self) -> usize {
        let pairs = self
            .failure
            .attributes
            .iter()
            .chain(&self.failure.error.details);
        let pairs: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        let parts = self.payload.iter();
        let parts: usize = parts
            .map(|(pointer, text)| pointer.len() + text.as_ref().map_or(0, String::len))
            .sum();
        self.failure.error.code.len() + self.failure.error.message.len() + pairs + parts
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
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

/// Told of every decision. Must not block for long: it is called where messages are handled.
pub trait Observer: Send + Sync {
    /// One decision: before it is applied, or, where the queue has a shadow, once that has answered.
    fn decided(&self, record: &DecisionRecord);
}

/// How many records may wait to be written.
const WAITING: usize = 10_000;

/// How many bytes of them, together.
const WAITING_BYTES: usize = 64 << 20;

/// How long the end waits for the last records to be written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// What the writing thread is handed.
#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

/// Writes each record as a line to a file or to standard output, on a thread of its own: a reader that has stopped reading costs records, and holds up nothing else.
#[derive(Debug)]
pub struct Recorder {
    lines: Option<SyncSender<Entry>>,
    /// The bytes of the lines that wait.
    waiting: Arc<AtomicUsize>,
    ended: Mutex<Receiver<()>>,
    dropping: AtomicBool,
}

impl Recorder {
    /// Writes where the configuration says.
    pub fn open(destination: &Destination) -> Result<Arc<Self>, RecordError> {
        let (path, opened) = match destination {
            Destination::Stdout => (PathBuf::from("standard output"), Self::to_stdout()),
            Destination::File(path) => (path.clone(), Self::to_file(path)),
        };
        opened.map_err(|cause| RecordError { path, cause })
    }

    /// Waits until what was recorded so far is written, for at most so long. Blocks.
    pub fn flush(&self, within: Duration) {
        let (done, written) = sync_channel(1);
        let asked = self
            .lines
            .as_ref()
            .is_some_and(|lines| lines.try_send(Entry::Flush(done)).is_ok());
        if asked {
            let _ = written.recv_timeout(within);
        }
    }

    /// Appends to a file, which is made where there is none. A line that a crash cut short is ended first.
    pub fn to_file(path: &Path) -> io::Result<Arc<Self>> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() {
            file.read_exact(&mut last)?;
        }
        Self::to(file, last != [b'\n'])
    }

    /// Writes to standard output.
    pub fn to_stdout() -> io::Result<Arc<Self>> {
        Self::to(io::stdout(), false)
    }

    fn to(writer: impl Write + Send + 'static, torn: bool) -> io::Result<Arc<Self>> {
        let (lines, entries) = sync_channel(WAITING);
        let (done, ended) = sync_channel(1);
        let waiting = Arc::<AtomicUsize>::default();
        let bytes = Arc::clone(&waiting);
        thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || {
                write(writer, torn, &entries, &bytes);
                let _ = done.send(());
            })?;
        Ok(Arc::new(Self {
            lines: Some(lines),
            waiting,
            ended: Mutex::new(ended),
            dropping: AtomicBool::new(false),
        }))
    }

    /// Puts a line at the end of those that wait to be written, if there is room for it.
    fn add(&self, line: Vec<u8>) -> bool {
        let Some(lines) = &self.lines else {
            return false;
        };
        let size = line.len();
        let waiting = self.waiting.fetch_add(size, Ordering::Relaxed);
        let has_room = waiting.saturating_add(size) <= WAITING_BYTES;
        let taken = has_room && lines.try_send(Entry::Line(line)).is_ok();
        if !taken {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
        taken
    }
}

impl Observer for Recorder {
    fn decided(&self, record: &DecisionRecord) {
        let mut line = match serde_json::to_vec(record) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "a decision could not be recorded");
                return;
            }
        };
        line.push(b'\n');
        let taken = self.add(line);
        let was_dropping = self.dropping.swap(!taken, Ordering::Relaxed);
        if !taken && !was_dropping {
            tracing::error!("decision records are not read: they are dropped until they are");
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.lines.take());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// Writes whole lines, one at a time. A full disk or a closed pipe is said once, and the line that it cut short is ended before the next.
fn write(mut writer: impl Write, mut torn: bool, entries: &Receiver<Entry>, waiting: &AtomicUsize) {
    let mut failing = false;
    for entry in entries {
        let line = match entry {
            Entry::Line(line) => line,
            Entry::Flush(done) => {
                let _ = done.send(());
                continue;
            }
        };
        let end: &[u8] = if torn { b"\n" } else { b"" };
        let written = writer
            .write_all(end)
            .and_then(|()| writer.write_all(&line))
            .and_then(|()| writer.flush());
        waiting.fetch_sub(line.len(), Ordering::Relaxed);
        torn = written.is_err();
        match written {
            Ok(()) => failing = false,
            Err(_) if failing => {}
            Err(error) => {
                failing = true;
                tracing::error!(%error, "decisions can't be recorded: they go on without a record");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full for its second write and takes half of it.
    struct FullOnce(Arc<Mutex<Vec<u8>>>, u32);

    impl Write for FullOnce {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            match self.1 {
                2 => {
                    self.0.lock().unwrap().extend(&bytes[..bytes.len() / 2]);
                    Ok(bytes.len() / 2)
                }
                3 => Err(io::Error::other("no space left on device")),
                _ => {
                    self.0.lock().unwrap().extend(bytes);
                    Ok(bytes.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A reader that has stopped reading: until it is let go on.
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
    fn records_that_wait_for_a_reader_hold_so_many_bytes_at_most() {
        let (go_on, stalled) = sync_channel(0);
        let written = Arc::<AtomicUsize>::default();
        let recorder = Recorder::to(Stalled(stalled, Arc::clone(&written)), false).unwrap();
        let line = |size: usize| vec![b'x'; size];
        let taken = (0..100).filter(|_| recorder.add(line(1 << 20))).count();
        assert_eq!(taken, 64);
        assert!(!recorder.add(line(1)));
        assert_eq!(recorder.waiting.load(Ordering::Relaxed), WAITING_BYTES);
        // Once it reads again there is room again.
        drop(go_on);
        recorder.flush(SHUTDOWN_TIMEOUT);
        assert_eq!(written.load(Ordering::Relaxed), WAITING_BYTES);
        assert!(recorder.add(line(1)));
    }

    #[test]
    fn a_line_that_a_full_disk_cut_short_spoils_no_other() {
        let disk = Arc::new(Mutex::new(Vec::new()));
        let (lines, waiting) = sync_channel(3);
        for line in ["{\"a\":1}\n", "{\"b\":2}\n", "{\"c\":3}\n"] {
            lines.send(Entry::Line(line.as_bytes().to_vec())).unwrap();
        }
        drop(lines);
        let bytes = AtomicUsize::new(24);
        write(FullOnce(Arc::clone(&disk), 0), false, &waiting, &bytes);
        assert_eq!(bytes.into_inner(), 0);
        assert_eq!(
            String::from_utf8_lossy(&disk.lock().unwrap()),
            "{\"a\":1}\n{\"b\"\n{\"c\":3}\n"
        );
    }
}
