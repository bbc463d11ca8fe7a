//! What came of all records: how many differ, in what, and some of them to look at.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Change, Delays, LineRef, NotComparable, RecordedAnswer};
use backstop::policy::PartName;
use backstop_core::failure::Failure;

/// What came of all records.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The records that were replayed: `same`, `different` and `apart` together.
    pub records: usize,
    /// Those that are decided as before.
    pub same: usize,
    /// Those that are not.
    pub different: usize,
    /// Those of which that can't be told, by the reason.
    pub apart: BTreeMap<NotComparable, usize>,
    /// Lines that are no records.
    pub unreadable: Unreadable,
    /// Records of queues that were not asked for or have no policy, by queue. They are not among `records`.
    pub other_queues: BTreeMap<String, usize>,
    /// The records by queue.
    pub queues: BTreeMap<String, usize>,
    /// The records by the policy that decided them.
    pub recorded: BTreeMap<String, usize>,
    /// The compared records by class, before and now.
    pub classes: Vec<Pair>,
    /// The compared records by verdict, before and now.
    pub verdicts: Vec<Pair>,
    /// The differences by kind, the gravest first. A record is in each kind in which it differs.
    pub changes: Vec<Group>,
    /// How the new policy broke.
    pub broken: BTreeMap<String, usize>,
    /// Pointers into the payload that were looked at and that records do not hold.
    pub not_recorded: BTreeMap<String, usize>,
    /// The delays of before.
    pub old_delays: Delays,
    /// The delays of now.
    pub new_delays: Delays,
}

/// Lines that are no records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unreadable {
    /// How many.
    pub lines: usize,
    /// The first of them.
    pub first: Vec<NoRecord>,
}

/// A line that is no record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoRecord {
    /// Where it stands.
    pub place: LineRef,
    /// What it is instead.
    pub why: String,
}

/// Records that were one thing and are another; or the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pair {
    /// Before.
    pub old: String,
    /// Now.
    pub new: String,
    /// How many.
    pub records: usize,
}

/// Records that differ in the same way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Group {
    /// In what.
    #[serde(flatten)]
    pub change: Change,
    /// How many.
    pub records: usize,
    /// The first of those that differ in nothing graver.
    pub samples: Vec<Sample>,
}

/// One record that is decided otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// Where the record stands.
    pub place: LineRef,
    /// Its queue.
    pub queue: String,
    /// What the policies were told.
    pub failure: Failure,
    /// The answer of before.
    pub old: RecordedAnswer,
    /// The answer of now.
    pub new: RecordedAnswer,
    /// The policy that gave it, with the settings that it had for this record.
    pub asked: Vec<PartName>,
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

    /// How many records differ in this.
    pub fn in_kind(&self, change: &Change) -> usize {
        let group = self.changes.iter().find(|group| group.change == *change);
        group.map_or(0, |group| group.records)
    }
}
