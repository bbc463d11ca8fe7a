//! A finished comparison: the flags, the policies and the report, as all printers need them.

use backstop_core::text::one_line;
use backstop_workbench::replay::{Delays, Report};
use backstop_workbench::simulate::Rounded;

use super::args::Args;
use super::candidates::Candidates;
use crate::terminal::count;

/// A report, and what it is the report of.
pub(super) struct Comparison<'a> {
    pub(super) args: &'a Args,
    pub(super) candidates: &'a Candidates,
    pub(super) report: &'a Report,
}

impl Comparison<'_> {
    /// What was replayed, in a sentence.
    pub(super) fn about(&self) -> String {
        let (compared, different) = (self.report.compared(), self.report.different);
        let decisions = match compared {
            1 => "one decision".to_owned(),
            many => format!("{} decisions", count(many)),
        };
        format!(
            "{decisions}{}, {} of them different.",
            self.of_queues(),
            count(different)
        )
    }

    /// ` of the queue orders`, or ` of 3 queues`.
    pub(super) fn of_queues(&self) -> String {
        let mut queues = self.report.queues.keys();
        match (queues.next(), queues.count()) {
            (Some(queue), 0) => format!(" of the queue {}", one_line(queue)),
            (_, more) => format!(" of {} queues", more + 1),
        }
    }

    /// The name of the old answers: those of another policy, or the recorded ones.
    pub(super) fn old_name(&self) -> &'static str {
        match self.candidates.old {
            Some(_) => "old",
            None => "recorded",
        }
    }
}

/// What the columns of [`columns`] are.
pub(super) const COLUMNS: [&str; 5] = ["retries", "median", "p90", "p99", "longest"];

/// How many delays there are, and their percentiles, for people.
pub(super) fn columns(delays: &Delays) -> [String; 5] {
    let [median, p90, p99, longest] = [delays.median, delays.p90, delays.p99, delays.longest]
        .map(|delay| Rounded(u64::from(delay)).to_string());
    [count(delays.records), median, p90, p99, longest]
}
