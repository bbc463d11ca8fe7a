//! Counts outcomes and summarises them in a report.

use std::collections::BTreeMap;

use super::answer::RecordedAnswer;
use super::change::Change;
use super::delays::Delays;
use super::replayed::{Outcome, Replayed};
use super::report::{Group, NoRecord, Pair, Report, Sample};

/// At most this many unreadable lines are listed.
const MAX_UNREADABLE: usize = 5;

/// The counts so far.
#[derive(Default)]
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
    /// Keeps at most `samples` of each kind of difference.
    pub(super) fn new(samples: usize) -> Self {
        Self {
            samples,
            ..Self::default()
        }
    }

    /// Counts one outcome.
    pub(super) fn count(&mut self, outcome: Outcome) {
        let report = &mut self.report;
        match outcome {
            Outcome::Unreadable(place, why) => {
                report.unreadable.lines += 1;
                if report.unreadable.first.len() < MAX_UNREADABLE {
                    report.unreadable.first.push(NoRecord { place, why });
                }
            }
            Outcome::Event => {}
            Outcome::OtherQueue(queue) => *report.other_queues.entry(queue).or_default() += 1,
            Outcome::Replayed(replayed) => self.replayed(*replayed),
        }
    }

    fn replayed(&mut self, replayed: Replayed) {
        let report = &mut self.report;
        let Replayed {
            queue,
            recorded,
            compared,
        } = replayed;
        report.records += 1;
        *report.queues.entry(queue).or_default() += 1;
        *report.recorded.entry(recorded).or_default() += 1;
        match compared {
            Err((reason, pointers)) => {
                *report.not_comparable.entry(reason).or_default() += 1;
                for pointer in pointers {
                    *report.not_recorded.entry(pointer).or_default() += 1;
                }
            }
            Ok((sample, changes)) => self.compared(sample, changes),
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
        // If one delay is unknown, neither counts, so that both sides cover the same failures.
        if old.has_known_delay() && new.has_known_delay() {
            self.old_delays.extend(old.delay().map(|delay| delay.0));
            self.new_delays.extend(new.delay().map(|delay| delay.0));
        }
        if let RecordedAnswer::Broken { cause, .. } = new {
            *self.report.broken.entry(cause.clone()).or_default() += 1;
        }
        let mut changes = changes.into_iter();
        let Some(most_severe) = changes.next() else {
            self.report.same += 1;
            return;
        };
        self.report.different += 1;
        let (count, samples) = self.changes.entry(most_severe).or_default();
        *count += 1;
        if samples.len() < self.samples {
            samples.push(sample);
        }
        for less_severe in changes {
            self.changes.entry(less_severe).or_default().0 += 1;
        }
    }

    /// The report.
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
