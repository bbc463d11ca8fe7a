//! The decision record: one JSON line for each decision, with everything that is needed to repeat the decision.
//!
//! `host/docs/decision-record.md` documents every field.
//!
//! ```no_run
//! use backstop::record::DecisionRecord;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for line in std::fs::read_to_string("decisions.jsonl")?.lines() {
//!     let record: DecisionRecord = serde_json::from_str(line)?;
//!     let failure = &record.failure;
//!     println!("{}, attempt {}: {:?}", failure.message_id, failure.attempt, record.decision.action);
//! }
//! # Ok(())
//! # }
//! ```

pub(crate) mod recorder;
mod shadowed;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::failure::{Failure, Timestamp};

pub use crate::policy::{LogLine, PartName};
pub(crate) use recorder::{RecordError, Recorder};
pub use shadowed::{Aspect, ShadowOutcome, Shadowed, Skipped};

/// One decision and everything that went into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionRecord {
    /// When it was made.
    pub time: Timestamp,
    /// The queue's name in the configuration.
    pub queue: String,
    /// The parts of the evaluated policy, with their settings.
    pub policy: Vec<PartName>,
    /// The failure as the policy received it.
    #[serde(deserialize_with = "backstop_json::only_object")]
    pub failure: Failure,
    /// The parts of the payload that the policy read, by pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub payload: BTreeMap<String, Option<String>>,
    /// How many reads of the payload are missing here because the record would have become too large.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload_left_out: u64,
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// The policy's log lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// How often the message was sent again without an attempt since its last one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hops: u32,
    /// Whether another copy of the message made this attempt already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplicate: bool,
    /// The fuel that all parts consumed.
    pub fuel: u64,
    /// How long the evaluation took, in microseconds.
    pub took_us: u64,
    /// The shadow's result for the same failure, if the queue has a shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadowed>,
}

impl DecisionRecord {
    /// Its approximate size in memory: the texts whose length depends on the message.
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Receives every decision. Must not block for long, because it runs where messages are handled.
pub trait Observer: Send + Sync {
    /// Called for each decision: before it is applied, or, if the queue has a shadow, after the shadow has answered.
    fn decided(&self, record: &DecisionRecord);
}
