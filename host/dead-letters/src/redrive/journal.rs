//! What a run has done, one JSON object a line, on the disk before the next step is taken.
//!
//! Before letters are sent, their ids are written as `sending`; when their target has accepted them, as `sent`, with their new ids; when they are deleted from the dead-letter queue, as `deleted`. A run that is killed loses nothing: what is `sent` is only deleted by the next one, and what is `sending` without more may or may not have arrived.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc;

use backstop_core::failure::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::RedriveError;

/// The longest line that is read, in bytes.
const LINE_BYTES: u64 = 64 << 20;

/// How a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every letter of the set has left the dead-letter queue, was refused, or was gone.
    Done,
    /// Too many letters failed again.
    Stopped,
    /// A signal stopped it.
    Interrupted,
    /// An error stopped it.
    Failed,
}

/// A letter that its target has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SentLetter {
    /// Its id in the dead-letter queue.
    pub id: String,
    /// Its id in its target, or the request id of the invocation, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// The id that identifies it in its life, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Entry {
    /// The run was started or resumed.
    Started {
        /// When.
        at: Timestamp,
        /// By whom.
        who: String,
    },
    /// The set is fixed.
    Surveyed {
        /// When.
        at: Timestamp,
        /// How many letters it has; `None` for a FIFO queue, whose letters are not all visible at the same time.
        members: Option<u64>,
        /// How many others there were.
        others: u64,
        /// Whether the whole queue was read.
        is_complete: bool,
    },
    /// These are about to be sent.
    Sending {
        /// Their ids.
        ids: Vec<String>,
    },
    /// These were not sent after all.
    NotSent {
        /// Their ids.
        ids: Vec<String>,
    },
    /// Their targets have accepted these.
    Sent {
        /// When.
        at: Timestamp,
        /// The letters.
        letters: Vec<SentLetter>,
    },
    /// These have left the dead-letter queue.
    Deleted {
        /// Their ids.
        ids: Vec<String>,
    },
    /// These were not accepted. They stay in the dead-letter queue.
    Refused {
        /// Their ids, each with the reason.
        letters: Vec<(String, String)>,
    },
    /// These may have arrived twice: a request had no answer, or the run was killed while they were sent.
    Uncertain {
        /// Their ids.
        ids: Vec<String>,
    },
    /// The body of this one was changed.
    Edited {
        /// Its id.
        id: String,
    },
    /// These have failed again.
    CameBack {
        /// When that was seen.
        at: Timestamp,
        /// The ids of the new letters, each with the id of the letter that was moved.
        letters: Vec<(String, String)>,
    },
    /// After a step, letters that came back were looked for.
    Watched {
        /// When.
        at: Timestamp,
        /// The number of the step, from 0.
        step: usize,
        /// How many letters the step has moved or tried to move.
        taken: u64,
        /// How many of them have failed again or were refused.
        failed: u64,
    },
    /// SQS has moved so many letters itself.
    Native {
        /// How many.
        moved: u64,
    },
    /// The run has ended.
    Ended {
        /// When.
        at: Timestamp,
        /// How.
        outcome: Outcome,
        /// Why, if it did not move everything.
        text: Option<String>,
        /// Letters of the set that could not be received.
        missing: Option<u64>,
        /// Letters that arrived after the start.
        later: u64,
    },
}

/// Reads the entries of a journal, in their order. A line that was cut off when its run was killed is left out.
pub(super) fn read(path: &Path, mut each: impl FnMut(Entry)) -> std::io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = Read::take(&mut reader, LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if let Ok(entry) = serde_json::from_slice(&line) {
            each(entry);
        }
    }
}

/// Writes the journal, on a thread of its own. Entries that arrive while the disk works share the next write.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    lines: mpsc::Sender<Line>,
}

#[derive(Debug)]
struct Line {
    text: Vec<u8>,
    done: oneshot::Sender<std::io::Result<()>>,
}

impl Journal {
    /// Opens a journal to add to it.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let mut file = File::options()
            .create(true)
            .read(true)
            .append(true)
            .open(path)?;
        // A line that was cut off must not join the next one.
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        let (lines, pending) = mpsc::channel();
        std::thread::Builder::new()
            .name("redrive-journal".to_owned())
            .spawn(move || write_all(&mut file, &pending))?;
        Ok(Self { lines })
    }

    /// Adds entries. They are on the disk when this returns.
    pub(super) async fn add(&self, entries: &[Entry]) -> Result<(), RedriveError> {
        let mut text = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut text, entry).map_err(std::io::Error::from)?;
            text.push(b'\n');
        }
        let (done, written) = oneshot::channel();
        let ended = || std::io::Error::other("the journal's thread has ended");
        self.lines.send(Line { text, done }).map_err(|_| ended())?;
        written.await.map_err(|_| ended())??;
        Ok(())
    }
}

fn write_all(file: &mut File, pending: &mpsc::Receiver<Line>) {
    while let Ok(first) = pending.recv() {
        let mut lines = vec![first];
        lines.extend(pending.try_iter());
        let text: Vec<u8> = lines.iter().flat_map(|line| line.text.clone()).collect();
        let result = file.write_all(&text).and_then(|()| file.sync_data());
        for line in lines {
            let copy = match &result {
                Ok(()) => Ok(()),
                Err(error) => Err(std::io::Error::new(error.kind(), error.to_string())),
            };
            // The run may have ended meanwhile.
            let _ = line.done.send(copy);
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        assert_eq!(entries(&path), []);
        Journal::open(&path)
            .unwrap()
            .add(&[sending("a")])
            .await
            .unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":\"sent\",\"at\":1,\"lett")
            .unwrap();
        assert_eq!(entries(&path), [sending("a")]);
        Journal::open(&path)
            .unwrap()
            .add(&[sending("b")])
            .await
            .unwrap();
        assert_eq!(entries(&path), [sending("a"), sending("b")]);
    }
}
