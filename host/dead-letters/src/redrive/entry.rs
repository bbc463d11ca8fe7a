//! What a line of the journal says, with a checksum: a changed line is not taken for another event.

use backstop_core::failure::Timestamp;
use backstop_files::sealed::{self, Opened};
use serde::{Deserialize, Serialize};

backstop_core::names! {
    /// How a run has ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome {
        /// Every letter of the set has left the dead-letter queue, was refused, or was gone.
        Done = "done",
        /// Too many letters failed again.
        Stopped = "stopped",
        /// A signal stopped it.
        Interrupted = "interrupted",
        /// An error stopped it.
        Failed = "failed",
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// How.
    pub outcome: Outcome,
    /// Why, if it did not move everything.
    pub text: Option<String>,
    /// Letters of the set that could not be received: others have deleted or moved them, or hold them. `None` if nobody knows how many there are.
    pub missing: Option<u64>,
    /// Letters that arrived after the start, as far as they were seen.
    pub later: u64,
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
    /// After a step, or during a long one, letters that came back were looked for.
    Watched {
        /// When.
        at: Timestamp,
        /// The number of the step, from 0.
        step: usize,
        /// How many letters the step has moved or tried to move.
        taken: u64,
        /// How many of them have failed again or were refused.
        failed: u64,
        /// Whether the step went on afterwards.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_early: bool,
    },
    /// SQS has moved so many letters itself.
    Native {
        /// How many.
        moved: u64,
    },
    /// The run has ended.
    Ended(Ended),
}

impl Entry {
    /// Its line, with the checksum and the line break.
    pub fn line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = sealed::seal(&serde_json::to_vec(self)?);
        line.push(b'\n');
        Ok(line)
    }

    /// The entry of a line, if the line is as it was written. Earlier versions wrote no checksum.
    pub(super) fn of_line(line: &[u8]) -> Option<Self> {
        match sealed::open(line) {
            Opened::Whole(object) => serde_json::from_slice(&object).ok(),
            Opened::Unsealed => serde_json::from_slice(line).ok(),
            Opened::Changed => None,
        }
    }
}
