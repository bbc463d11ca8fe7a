//! The result of a replay: how many decisions differ, how, and samples of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{NotComparable, RecordedAnswer};
use super::change::Change;
use super::delays::Delays;
use super::lines::LineRef;
use backstop_core::failure::Failure;
use backstop_engine::PartName;

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The records that were replayed: `same`, `different` and `not_comparable` together.
    pub records: usize,
    /// The records that are decided as before.
    pub same: usize,
    /// The records that are decided differently.
    pub different: usize,
    /// The records that can't be compared, by reason.
    pub not_comparable: BTreeMap<NotComparable, usize>,
    /// Lines that are not records.
    pub unreadable: Unreadable,
    /// Records of other queues, or of queues without a policy, by queue. `records` does not include them.
    pub other_queues: BTreeMap<String, usize>,
    /// The records by queue.
    pub queues: BTreeMap<String, usize>,
    /// The records by the policy that decided them.
    pub recorded: BTreeMap<String, usize>,
    /// The compared records by class, before and now.
    pub classes: Vec<Pair>,
    /// The compared records by verdict, before and now.
    pub verdicts: Vec<Pair>,
    /// The differences by kind, the most severe first. A record counts for each kind in which it differs.
    pub changes: Vec<Group>,
    /// How the new policy broke.
    pub broken: BTreeMap<String, usize>,
    /// Pointers into the payload that a policy read and that records do not contain.
    pub not_recorded: BTreeMap<String, usize>,
    /// The old delays.
    pub old_delays: Delays,
    /// The new delays.
    pub new_delays: Delays,
}

/// Lines that are not records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unreadable {
    /// The number of lines.
    pub lines: usize,
    /// The first lines.
    pub first: Vec<NoRecord>,
}

/// A line that is not a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoRecord {
    /// The line.
    pub place: LineRef,
    /// Why it is not a record.
    pub why: String,
}

/// The number of records with these two values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pair {
    /// Before.
    pub old: String,
    /// Now.
    pub new: String,
    /// The number of records.
    pub records: usize,
}

/// Records that differ in the same way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Group {
    /// The difference.
    #[serde(flatten)]
    pub change: Change,
    /// The number of records.
    pub records: usize,
    /// The first records without a more severe difference.
    pub samples: Vec<Sample>,
}

/// One record that is decided differently.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// The line of the record.
    pub place: LineRef,
    /// Its queue.
    pub queue: String,
    /// The failure.
    pub failure: Failure,
    /// The old answer.
    pub old: RecordedAnswer,
    /// The new answer.
    pub new: RecordedAnswer,
    /// The new policy, with its settings for this record.
    pub policy: Vec<PartName>,
}

impl Report {
    /// How many records could be compared.
    pub fn compared(&self) -> usize {
        self.same + self.different
    }

    /// How many records the new policy breaks on that were answered before.
    pub fn newly_broken(&self) -> usize {
        self.in_kind(&Change::Breaks)
    }

    /// How many records have this difference.
    pub fn in_kind(&self, change: &Change) -> usize {
        let group = self.changes.iter().find(|group| group.change == *change);
        group.map_or(0, |group| group.records)
    }
}
