//! What came of all records: how many differ, in what, and some of them to look at.

use std::collections::BTreeMap;

use serde::Serialize;

use super::replayed::{Judged, Outcome, Replayed};
use super::{Apart, Change, Delays, Place, Said};
use crate::failure::Failure;
use crate::policy::PartName;

/// Lines that are no records: so many of them are told one by one.
const UNREADABLE: usize = 5;

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
    pub apart: BTreeMap<Apart, usize>,
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
    pub place: Place,
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
    pub place: Place,
    /// Its queue.
    pub queue: String,
    /// What the policies were told.
    pub failure: Failure,
    /// The answer of before.
    pub old: Said,
    /// The answer of now.
    pub new: Said,
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

/// A report under way.
pub(super) struct Tally {
    samples: usize,
    report: Report,
    classes: BTreeMap<(String, String), usize>,
    verdicts: BTreeMap<(&'static str, &'static str), usize>,
    changes: BTreeMap<Change, (usize, Vec<Sample>)>,
    old_delays: Vec<u32>,
    new_delays: Vec<u32>,
}

impl Tally {
    /// Keeps so many samples of each kind of difference.
    pub(super) fn new(samples: usize) -> Self {
        Self {
            samples,
            report: Report {
                records: 0,
                same: 0,
                different: 0,
                apart: BTreeMap::new(),
                unreadable: Unreadable::default(),
                other_queues: BTreeMap::new(),
                queues: BTreeMap::new(),
                recorded: BTreeMap::new(),
                classes: Vec::new(),
                verdicts: Vec::new(),
                changes: Vec::new(),
                broken: BTreeMap::new(),
                not_recorded: BTreeMap::new(),
                old_delays: Delays::default(),
                new_delays: Delays::default(),
            },
            classes: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            changes: BTreeMap::new(),
            old_delays: Vec::new(),
            new_delays: Vec::new(),
        }
    }

    /// Takes one more line into account.
    pub(super) fn count(&mut self, outcome: Outcome) {
        let report = &mut self.report;
        match outcome {
            Outcome::Unreadable(place, why) => {
                report.unreadable.lines += 1;
                if report.unreadable.first.len() < UNREADABLE {
                    report.unreadable.first.push(NoRecord { place, why });
                }
            }
            Outcome::OtherQueue(queue) => *report.other_queues.entry(queue).or_default() += 1,
            Outcome::Replayed(replayed) => self.replayed(*replayed),
        }
    }

    fn replayed(&mut self, replayed: Replayed) {
        let report = &mut self.report;
        let Replayed {
            place,
            queue,
            recorded,
            failure,
            judged,
        } = replayed;
        report.records += 1;
        *report.queues.entry(queue.clone()).or_default() += 1;
        *report.recorded.entry(recorded).or_default() += 1;
        match judged {
            Judged::Apart(apart, pointers) => {
                *report.apart.entry(apart).or_default() += 1;
                for pointer in pointers {
                    *report.not_recorded.entry(pointer).or_default() += 1;
                }
            }
            Judged::Compared {
                old,
                new,
                changes,
                asked,
            } => {
                let sample = Sample {
                    place,
                    queue,
                    failure,
                    old,
                    new,
                    asked,
                };
                self.compared(sample, changes);
            }
        }
    }

    fn compared(&mut self, sample: Sample, changes: Vec<Change>) {
        let Sample { old, new, .. } = &sample;
        *self
            .verdicts
            .entry((old.verdict(), new.verdict()))
            .or_default() += 1;
        if let (Some(old), Some(new)) = (old.class(), new.class()) {
            let pair = (Change::class_name(old), Change::class_name(new));
            *self.classes.entry(pair).or_default() += 1;
        }
        self.old_delays.extend(old.delay().map(|delay| delay.0));
        self.new_delays.extend(new.delay().map(|delay| delay.0));
        if let Said::Broken { cause } = new {
            *self.report.broken.entry(cause.clone()).or_default() += 1;
        }
        let mut changes = changes.into_iter();
        let Some(gravest) = changes.next() else {
            self.report.same += 1;
            return;
        };
        self.report.different += 1;
        let (count, samples) = self.changes.entry(gravest).or_default();
        *count += 1;
        if samples.len() < self.samples {
            samples.push(sample);
        }
        for lesser in changes {
            self.changes.entry(lesser).or_default().0 += 1;
        }
    }

    /// What it comes to.
    pub(super) fn report(self) -> Report {
        let classes = self.classes.into_iter();
        let verdicts = self.verdicts.into_iter();
        let changes = self.changes.into_iter();
        Report {
            classes: classes
                .map(|((old, new), records)| Pair { old, new, records })
                .collect(),
            verdicts: verdicts
                .map(|((old, new), records)| Pair {
                    old: old.to_owned(),
                    new: new.to_owned(),
                    records,
                })
                .collect(),
            changes: changes
                .map(|(change, (records, samples))| Group {
                    change,
                    records,
                    samples,
                })
                .collect(),
            old_delays: Delays::of(self.old_delays),
            new_delays: Delays::of(self.new_delays),
            ..self.report
        }
    }
}
