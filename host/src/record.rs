//! The decision record: one JSON line for every decision, with all that it takes to decide again.
//!
//! `host/docs/decision-record.md` documents it field by field.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::failure::{Failure, Timestamp};
use crate::policy::{LogLine, PartName};

/// One decision and everything that went into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionRecord {
    /// When it was written.
    pub time: Timestamp,
    /// The queue's name in the configuration.
    pub queue: String,
    /// The parts of the policy that was asked, with their settings.
    pub policy: Vec<PartName>,
    /// What the policy was told.
    pub failure: Failure,
    /// What it read of the payload, by pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub payload: BTreeMap<String, Option<String>>,
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
}

/// Told of every decision. Must not block for long: it is called where messages are handled.
pub trait Observer: Send + Sync {
    /// One decision, before it is applied.
    fn decided(&self, record: &DecisionRecord);
}

/// Writes each record as a line to a file or to standard output.
pub struct Recorder {
    out: Mutex<Out>,
}

struct Out {
    writer: Box<dyn Write + Send>,
    failing: bool,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Appends to a file, which is made where there is none.
    pub fn to_file(path: &Path) -> io::Result<Arc<Self>> {
        let file: File = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::to(file))
    }

    /// Writes to standard output.
    pub fn to_stdout() -> Arc<Self> {
        Self::to(io::stdout())
    }

    fn to(writer: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            out: Mutex::new(Out {
                writer: Box::new(writer),
                failing: false,
            }),
        })
    }
}

impl Observer for Recorder {
    /// Writes whole lines, one at a time. A full disk or a closed pipe is said once and costs records, never messages.
    fn decided(&self, record: &DecisionRecord) {
        let mut line = match serde_json::to_vec(record) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "a decision could not be recorded");
                return;
            }
        };
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let written = out
            .writer
            .write_all(&line)
            .and_then(|()| out.writer.flush());
        match written {
            Ok(()) => out.failing = false,
            Err(_) if out.failing => {}
            Err(error) => {
                out.failing = true;
                tracing::error!(%error, "decisions can't be recorded: they go on without a record");
            }
        }
    }
}
