//! What a delivery that is killed goes on from: how much of its file is settled.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::usage;
use crate::error::{Context, Result};

/// The state of a delivery from a file. Everything before `position` was delivered, or is in the first `undelivered` bytes of the file of undelivered entries, except for the lines in `pending`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub(super) input: PathBuf,
    /// Where the first line starts that was not yet read.
    pub(super) position: u64,
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

    /// The state of an interrupted delivery of this input.
    pub(super) fn read(&self, input: &Path, length: Option<u64>) -> Result<Option<Checkpoint>> {
        let path = self.0.display();
        let text = match std::fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("can't read {path}")),
        };
        let checkpoint: Checkpoint =
            serde_json::from_slice(&text).with_context(|| format!("can't read {path}"))?;
        let is_same = length.is_some_and(|length| checkpoint.position <= length)
            && std::path::absolute(input).is_ok_and(|input| input == checkpoint.input);
        if !is_same {
            let input = checkpoint.input.display();
            return Err(usage(format!(
                "a delivery of {input} was interrupted: deliver that file to go on, name another file with --undelivered, or remove {path} to give it up"
            )));
        }
        Ok(Some(checkpoint))
    }

    pub(super) fn write(&self, checkpoint: &Checkpoint) -> Result<()> {
        let text = serde_json::to_vec(checkpoint)?;
        backstop_files::atomic_write::write(&self.0, &text, 0o600)
            .with_context(|| format!("can't write {}", self.0.display()))
    }

    /// The delivery has ended.
    pub(super) fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_goes_on_only_with_the_same_input() {
        let folder = tempfile::tempdir().unwrap();
        let file = CheckpointFile::of(&folder.path().join("rest.jsonl"));
        let input = folder.path().join("orders.jsonl");
        assert_eq!(file.read(&input, Some(100)).unwrap(), None);
        let checkpoint = Checkpoint {
            input: input.clone(),
            position: 50,
            pending: vec![20, 40],
            line: 2,
            undelivered: 7,
        };
        file.write(&checkpoint).unwrap();
        assert_eq!(file.read(&input, Some(100)).unwrap(), Some(checkpoint));
        for (other, length) in [
            (folder.path(), Some(100)),
            (&*input, Some(49)),
            (&*input, None),
        ] {
            let refused = file.read(other, length).unwrap_err();
            assert!(refused.to_string().contains("was interrupted"), "{refused}");
        }
        file.remove();
        assert_eq!(file.read(&input, Some(100)).unwrap(), None);
    }
}
