//! What a delivery that is killed goes on from: what it delivers where, and how much of its file is settled.

use std::fs::File;
use std::path::{Path, PathBuf};

use backstop_core::text::one_line;
use backstop_files::sealed::{self, Opened};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use super::read_hash::{ReadHash, Start};
use crate::error::{CommandError, Context, Exit, Result};

/// Where lines go, and how they are read. A delivery goes on only with the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Job {
    /// The ARN of the queue, the table or the stream.
    pub(super) target: String,
    /// The endpoint, if it is not one of AWS: the same ARN may be there too.
    pub(super) endpoint: Option<String>,
    /// What a line is.
    pub(super) lines: String,
}

impl Job {
    fn to(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{} at {endpoint}", self.target),
            None => self.target.clone(),
        }
    }

    /// How this job differs from an earlier one.
    fn difference(&self, earlier: &Self) -> Option<String> {
        if (&self.target, &self.endpoint) != (&earlier.target, &earlier.endpoint) {
            return Some(format!("it went to {}, not to {}", earlier.to(), self.to()));
        }
        (self.lines != earlier.lines)
            .then(|| format!("its lines were {}, not {}", earlier.lines, self.lines))
    }
}

/// The state of a delivery from a file. Everything before `position` was delivered, or is in the first `undelivered` bytes of the file of undelivered entries, except for the lines in `pending`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub(super) job: Job,
    pub(super) input: PathBuf,
    /// Where the first line starts that was not yet read.
    pub(super) position: u64,
    /// The hash of everything before it.
    pub(super) read: String,
    /// Where the lines without an outcome start, in order. They may have been delivered.
    pub(super) pending: Vec<u64>,
    /// The number of the first line that is read again.
    pub(super) line: u64,
    pub(super) undelivered: u64,
}

impl Checkpoint {
    /// Where the first line starts that is read again.
    pub(super) fn first(&self) -> u64 {
        self.pending.first().copied().unwrap_or(self.position)
    }

    /// Whether the line that starts here has its outcome.
    pub(super) fn is_settled(&self, start: u64) -> bool {
        start < self.position && self.pending.binary_search(&start).is_err()
    }

    /// The hashes of what was read, if the file still begins with it; otherwise what `refused` makes of how it differs.
    fn start(&self, file: &File, refused: impl Fn(&str) -> CommandError) -> Result<Start> {
        let input = self.input.display();
        let start = ReadHash::of_start(file, self.first().min(self.position), self.position)
            .with_context(|| format!("can't read {input}"))?;
        let Some(start) = start else {
            let bytes = self.position;
            return Err(refused(&format!(
                "{input} is shorter than the {bytes} bytes that were read"
            )));
        };
        if start.position.digest() != self.read {
            let bytes = self.position;
            return Err(refused(&format!(
                "{input} has changed: its first {bytes} bytes are not those that were read"
            )));
        }
        let length = file.metadata()?.len();
        if !start.ends_line && length > self.position {
            return Err(refused(&format!(
                "{input} has changed: the last line that was read goes on"
            )));
        }
        Ok(start)
    }
}

/// The file next to that of the undelivered entries: its name, and `.progress`.
#[derive(Debug)]
pub(super) struct CheckpointFile(PathBuf);

impl CheckpointFile {
    pub(super) fn of(undelivered: &Path) -> Self {
        let mut name = undelivered.as_os_str().to_owned();
        name.push(".progress");
        Self(name.into())
    }

    /// The state of an interrupted delivery, with the hashes of what it read. Another delivery is refused, with what differs: it would skip lines that were never delivered. `file` is the input, if it is a regular file.
    pub(super) fn read(
        &self,
        job: &Job,
        input: &Path,
        file: Option<&File>,
    ) -> Result<Option<(Checkpoint, Start)>> {
        let path = self.0.display();
        let text = match std::fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("can't read {path}")),
        };
        let checkpoint = match sealed::open(&text) {
            Opened::Whole(object) => serde_json::from_slice(&object),
            Opened::Unsealed => serde_json::from_slice::<Checkpoint>(&text)
                .and_then(|_| Err(serde_json::Error::custom("it has no checksum"))),
            Opened::Changed => {
                return Err(Exit::Usage.because(format!(
                    "{path} was changed or damaged after it was written: it can't be known which lines were delivered; remove it to deliver the whole file again"
                )));
            }
        };
        let checkpoint: Checkpoint = checkpoint.map_err(|error| {
            Exit::Usage.because(format!(
                "{path} does not say what was delivered where ({error}), as those of earlier versions of backstop: remove it to deliver the whole file again, or finish with the version that wrote it"
            ))
        })?;
        let known = checkpoint.input.display();
        let Some(file) = file.filter(|_| is_path(input, &checkpoint.input)) else {
            let input = input.display();
            return Err(self.refused(&format!("it read {known}, not {input}")));
        };
        if let Some(difference) = job.difference(&checkpoint.job) {
            return Err(self.refused(&difference));
        }
        let start = checkpoint.start(file, |difference| self.refused(difference))?;
        Ok(Some((checkpoint, start)))
    }

    fn refused(&self, difference: &str) -> CommandError {
        let path = self.0.display();
        Exit::Usage.because(one_line(&format!(
            "another delivery was interrupted ({path}), and this one can't go on with it: {difference}; repeat that delivery, name another file with --undelivered to start this one, or remove {path} to give that one up"
        )))
    }

    pub(super) fn write(&self, checkpoint: &Checkpoint) -> Result<()> {
        let text = sealed::seal(&serde_json::to_vec(checkpoint)?);
        backstop_files::atomic_write::write(&self.0, &text, 0o600)
            .with_context(|| format!("can't write {}", self.0.display()))
    }

    /// The delivery has ended.
    pub(super) fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn is_path(input: &Path, known: &Path) -> bool {
    std::path::absolute(input).is_ok_and(|input| input == known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(target: &str, endpoint: Option<&str>, lines: &str) -> Job {
        Job {
            target: target.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            lines: lines.to_owned(),
        }
    }

    #[test]
    fn a_delivery_goes_on_only_with_what_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let file = CheckpointFile::of(&folder.path().join("rest.jsonl"));
        let input = folder.path().join("orders.jsonl");
        let read = |job: &Job, input: &Path| {
            let opened = File::open(input).ok();
            file.read(job, input, opened.as_ref())
        };
        let own = job("arn:orders", Some("http://localhost:4566"), "messages");
        std::fs::write(&input, "one\ntwo\nthree\nfour").unwrap();
        assert!(read(&own, &input).unwrap().is_none());
        let mut hash = ReadHash::default();
        hash.add(b"one\ntwo\n");
        let checkpoint = Checkpoint {
            job: own.clone(),
            input: input.clone(),
            position: 8,
            read: hash.digest(),
            pending: vec![4],
            line: 2,
            undelivered: 7,
        };
        file.write(&checkpoint).unwrap();
        let (known, start) = read(&own, &input).unwrap().unwrap();
        assert_eq!(known, checkpoint);
        assert_eq!(start.position.digest(), hash.digest());

        // What was not yet read may change.
        std::fs::write(&input, "one\ntwo\nmore\nand more\n").unwrap();
        assert!(read(&own, &input).unwrap().is_some());

        let endpoint = Some("http://localhost:4566");
        for (other, difference) in [
            (
                job("arn:others", endpoint, "messages"),
                "it went to arn:orders at http://localhost:4566, not to arn:others at",
            ),
            (
                job("arn:orders", None, "messages"),
                "it went to arn:orders at http://localhost:4566, not to arn:orders;",
            ),
            (
                job("arn:orders", endpoint, "bodies"),
                "its lines were messages, not bodies",
            ),
        ] {
            let refused = read(&other, &input).unwrap_err().to_string();
            assert!(refused.contains(difference), "{refused}");
        }
        let other = folder.path().join("other.jsonl");
        std::fs::write(&other, "one\ntwo\n").unwrap();
        for other in [&*other, Path::new("-")] {
            let refused = read(&own, other).unwrap_err().to_string();
            assert!(refused.contains("it read "), "{refused}");
        }
        for (text, difference) in [
            ("one\n", "is shorter than the 8 bytes"),
            ("one\ntwO\nthree\n", "its first 8 bytes are not those"),
        ] {
            std::fs::write(&input, text).unwrap();
            let refused = read(&own, &input).unwrap_err().to_string();
            assert!(refused.contains(difference), "{refused}");
        }
        file.remove();
        assert!(read(&own, &input).unwrap().is_none());
    }

    #[test]
    fn a_checkpoint_that_is_cut_or_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = CheckpointFile::of(&folder.path().join("rest.jsonl"));
        let input = folder.path().join("orders.jsonl");
        std::fs::write(&input, "one\ntwo\n").unwrap();
        let mut hash = ReadHash::default();
        hash.add(b"one\ntwo\n");
        let checkpoint = Checkpoint {
            job: job("arn:orders", None, "bodies"),
            input: input.clone(),
            position: 8,
            read: hash.digest(),
            pending: vec![0, 4],
            line: 1,
            undelivered: 7,
        };
        file.write(&checkpoint).unwrap();
        let whole = std::fs::read(&file.0).unwrap();
        let read = |text: &[u8]| {
            std::fs::write(&file.0, text).unwrap();
            file.read(&checkpoint.job, &input, File::open(&input).ok().as_ref())
        };
        assert_eq!(read(&whole).unwrap().unwrap().0, checkpoint);
        for at in 0..whole.len() {
            assert!(read(whole.get(..at).unwrap()).is_err(), "cut at {at}");
            for byte in [
                b' ',
                b'0',
                b'9',
                b'"',
                b'\n',
                whole[at] ^ 1,
                whole[at] ^ 0x80,
            ] {
                let mut changed = whole.clone();
                changed[at] = byte;
                assert_eq!(read(&changed).is_ok(), changed == whole, "{byte} at {at}");
            }
        }
    }

    #[test]
    fn a_last_line_that_goes_on_is_not_taken_for_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = CheckpointFile::of(&folder.path().join("rest.jsonl"));
        let input = folder.path().join("orders.jsonl");
        let mut hash = ReadHash::default();
        hash.add(b"one\ntw");
        let checkpoint = Checkpoint {
            job: job("arn:orders", None, "bodies"),
            input: input.clone(),
            position: 6,
            read: hash.digest(),
            pending: Vec::new(),
            line: 3,
            undelivered: 0,
        };
        file.write(&checkpoint).unwrap();
        for (text, goes_on) in [("one\ntw", true), ("one\ntwo\n", false)] {
            std::fs::write(&input, text).unwrap();
            let read = file.read(&checkpoint.job, &input, File::open(&input).ok().as_ref());
            assert_eq!(read.is_ok(), goes_on, "{text:?}");
        }
    }

    #[test]
    fn a_checkpoint_of_an_earlier_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = CheckpointFile::of(&folder.path().join("rest.jsonl"));
        let text =
            r#"{"input":"/orders.jsonl","position":50,"pending":[],"line":2,"undelivered":0}"#;
        std::fs::write(&file.0, text).unwrap();
        let job = job("arn:orders", None, "messages");
        let refused = file.read(&job, Path::new("/orders.jsonl"), None);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("missing field `job`"), "{refused}");
        assert!(refused.contains("remove it to deliver the whole file again"));
    }
}
