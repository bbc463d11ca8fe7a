//! Lines that a thread of its own writes to a stream. Whoever has a line to write never waits for the reader, and never fails.
//!
//! A log is written so: a reader that has stopped, a full disk or a closed pipe costs log lines and nothing else.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How many bytes may wait to be written. What comes on top of them is dropped and counted.
const WAITING_BYTES: usize = 4 << 20;

/// Hands lines to the thread that writes them. Cheap to clone. The thread lives as long as the process.
#[derive(Debug, Clone)]
pub struct BackgroundWriter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A line has come.
    filled: Condvar,
    /// Every line is written, or lost.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Of the lines that wait, and of the one that is being written.
    bytes: usize,
    /// Lines that were not written since the last one that was.
    dropped: u64,
}

impl BackgroundWriter {
    /// Writes to standard error or standard output. The stream's own lock is not taken, so that nobody else waits for a reader that has stopped.
    ///
    /// `report` is called with the number of lines that were dropped as soon as a line can be written again.
    pub fn to(stream: impl AsFd, report: impl Fn(u64) + Send + 'static) -> io::Result<Self> {
        let own = File::from(stream.as_fd().try_clone_to_owned()?);
        Self::start(own, report)
    }

    fn start(
        writer: impl Write + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writing = Arc::clone(&shared);
        thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || writing.write_all(writer, &report))?;
        Ok(Self(shared))
    }

    /// Hands over one line, its newline included. Dropped where too much is waiting already.
    pub fn write(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > WAITING_BYTES {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        self.0.filled.notify_one();
    }

    /// Waits until all lines so far are written, for at most so long. Whether they are. Blocks.
    pub fn flush(&self, within: Duration) -> bool {
        let waited = self
            .0
            .emptied
            .wait_timeout_while(self.0.lock(), within, |state| state.bytes > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes == 0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Vec<u8> {
        let waited = self
            .filled
            .wait_while(self.lock(), |state| state.lines.is_empty());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.lines.pop_front().unwrap_or_default()
    }

    /// The thread. Its lock is never held while it writes.
    fn write_all(&self, mut writer: impl Write, report: &impl Fn(u64)) {
        let mut torn = false;
        loop {
            let line = self.next();
            // A line that a full disk cut short spoils no other.
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
                Err(_) => {
                    state.dropped += 1;
                    0
                }
            };
            drop(state);
            if dropped > 0 {
                // May be a line of this writer's.
                report(dropped);
            }
            if self.lock().bytes == 0 {
                self.emptied.notify_all();
            }
        }
    }
}

/// One line after another. Never fails.
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

    /// A reader that takes a line whenever it is allowed one, or refuses it.
    struct Allowed {
        allowances: Receiver<bool>,
        written: Sender<String>,
    }

    impl Write for Allowed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.allowances.recv().unwrap_or(false) {
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
        let (allow, allowances) = channel();
        let (sent, written) = channel();
        let (report, dropped) = channel();
        let stream = Allowed {
            allowances,
            written: sent,
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
    fn a_reader_that_has_stopped_costs_lines_and_the_number_of_them_is_reported() {
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
    fn a_line_that_is_refused_is_dropped_and_the_next_begins_anew() {
        let trial = trial();
        trial.allow.send(false).unwrap();
        trial.writer.write(b"lost\n");
        assert!(trial.writer.flush(Duration::from_secs(60)));
        trial.allow.send(true).unwrap();
        trial.allow.send(true).unwrap();
        trial.writer.write(b"kept\n");
        assert_eq!(trial.dropped.recv().unwrap(), 1);
        assert_eq!(trial.written.iter().take(2).collect::<String>(), "\nkept\n");
    }
}
