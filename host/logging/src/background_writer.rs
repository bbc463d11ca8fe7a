//! Writes lines to a stream on a separate thread. Callers never wait for the reader and never get an error.
//!
//! The log uses it: if its reader stops, the disk is full or the pipe is closed, only log lines are lost.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use backstop_core::lock::{lock, unpoisoned};
use backstop_core::lost;
use tracing_subscriber::fmt::MakeWriter;

/// The size of the buffer, in bytes. Further lines are dropped and counted.
const WAITING_BYTES: usize = 4 << 20;

/// Passes lines to the thread that writes them. Cheap to clone. The thread lives as long as the process.
#[derive(Debug, Clone)]
pub struct BackgroundWriter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A line was added.
    filled: Condvar,
    /// Every line is written or lost.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// The bytes of the buffered lines and of the line that is being written.
    bytes: usize,
    /// Lines that were dropped since the last successful write.
    dropped: u64,
    /// Why a write failed: the first one that did.
    failure: Option<io::Error>,
}

impl BackgroundWriter {
    /// Writes to standard error or standard output, without taking the stream's lock, so that other users of the stream are not blocked if the reader stops.
    ///
    /// As soon as a line can be written again, `report` is called with the number of dropped lines.
    pub fn to(stream: impl AsFd, report: impl Fn(u64) + Send + 'static) -> io::Result<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        Self::start(file, report)
    }

    fn start(
        writer: impl Write + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || worker.write_all(writer, &report))?;
        Ok(Self(shared))
    }

    /// Adds one line, its newline included. The line is dropped if the buffer is full.
    pub fn write(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > WAITING_BYTES {
            state.dropped += 1;
            lost::LOG_LINES.add();
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        self.0.filled.notify_one();
    }

    /// Waits until all lines so far are written, for at most `timeout`, and returns whether they are. Blocks.
    pub fn flush(&self, timeout: Duration) -> bool {
        let waited = self
            .0
            .emptied
            .wait_timeout_while(self.0.lock(), timeout, |state| state.bytes > 0);
        let (state, _) = unpoisoned(waited);
        state.bytes == 0
    }

    /// Why a line could not be written, if there was one: the first since the last call. Call it after [`flush`](Self::flush).
    pub fn take_failure(&self) -> Option<io::Error> {
        self.0.lock().failure.take()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn next(&self) -> Vec<u8> {
        let waited = self
            .filled
            .wait_while(self.lock(), |state| state.lines.is_empty());
        let mut state = unpoisoned(waited);
        state.lines.pop_front().unwrap_or_default()
    }

    /// The thread's loop. It never holds the lock while it writes.
    fn write_all(&self, mut writer: impl Write, report: &impl Fn(u64)) {
        let mut torn = false;
        loop {
            let line = self.next();
            // A line break ends a line that a full disk cut off.
            let end: &[u8] = if torn { b"\n" } else { b"" };
            let written = writer
                .write_all(end)
                .and_then(|()| writer.write_all(&line))
                .and_then(|()| writer.flush());
            torn = written.is_err();
            let mut state = self.lock();
            state.bytes -= line.len();
            let dropped = match written {
                Ok(()) => std::mem::take(&mut state.dropped),
                Err(error) => {
                    state.dropped += 1;
                    lost::LOG_LINES.add();
                    state.failure.get_or_insert(error);
                    0
                }
            };
            drop(state);
            if dropped > 0 {
                // The report may itself be a line of this writer.
                report(dropped);
            }
            if self.lock().bytes == 0 {
                self.emptied.notify_all();
            }
        }
    }
}

/// Each write adds a line. Never fails.
impl Write for &BackgroundWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        BackgroundWriter::write(self, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for BackgroundWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A stream that accepts or rejects each line as the test says.
    struct Scripted {
        results: Receiver<bool>,
        written: Sender<String>,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.results.recv().unwrap_or(false) {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            }
            let _ = self
                .written
                .send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Trial {
        writer: BackgroundWriter,
        allow: Sender<bool>,
        written: Receiver<String>,
        dropped: Receiver<u64>,
    }

    fn trial() -> Trial {
        let (allow, results) = channel();
        let (lines, written) = channel();
        let (report, dropped) = channel();
        let stream = Scripted {
            results,
            written: lines,
        };
        let writer = BackgroundWriter::start(stream, move |lines| {
            let _ = report.send(lines);
        });
        Trial {
            writer: writer.unwrap(),
            allow,
            written,
            dropped,
        }
    }

    #[test]
    fn lines_are_dropped_and_counted_while_nobody_reads() {
        let trial = trial();
        let line = vec![b'x'; 1 << 20];
        for _ in 0..10 {
            // Returns although nobody reads.
            trial.writer.write(&line);
        }
        assert!(!trial.writer.flush(Duration::from_millis(1)));
        for _ in 0..4 {
            trial.allow.send(true).unwrap();
        }
        assert_eq!(trial.dropped.recv().unwrap(), 6);
        assert!(trial.writer.flush(Duration::from_secs(60)));
        assert_eq!(trial.written.try_iter().count(), 4);
    }

    #[test]
    fn a_line_that_fails_is_dropped_and_the_next_starts_a_new_line() {
        let trial = trial();
        trial.allow.send(false).unwrap();
        trial.writer.write(b"lost\n");
        assert!(trial.writer.flush(Duration::from_secs(60)));
        let failure = trial.writer.take_failure().unwrap();
        assert_eq!(failure.kind(), io::ErrorKind::BrokenPipe);
        assert!(trial.writer.take_failure().is_none());
        trial.allow.send(true).unwrap();
        trial.allow.send(true).unwrap();
        trial.writer.write(b"kept\n");
        assert_eq!(trial.dropped.recv().unwrap(), 1);
        assert_eq!(trial.written.iter().take(2).collect::<String>(), "\nkept\n");
    }
}
