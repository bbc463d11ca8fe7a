//! What the command prints of a replay, for people.

use crate::output::println;
use anstyle::{AnsiColor, Style};
use indicatif::HumanCount;

use super::candidates::{Candidates, title};
use super::{Args, samples, tables};
use backstop_core::text::one_line;
use backstop_workbench::replay::{NoRecord, NotComparable, Report};

const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// Causes, pointers, policies: so many of each are told one by one.
const TOLD: usize = 5;

/// A report, and what it is the report of.
pub(super) struct Shown<'a> {
    pub(super) args: &'a Args,
    pub(super) candidates: &'a Candidates,
    pub(super) report: &'a Report,
}

fn line(name: &str, value: impl std::fmt::Display) {
    println!("{name:<10} {value}");
}

/// A count with its thousands apart.
pub(super) fn count(number: usize) -> HumanCount {
    HumanCount(number as u64)
}

impl Shown<'_> {
    pub(super) fn print(&self) {
        self.print_what();
        self.print_counts();
        tables::print(self.report, self.old());
        samples::print(self);
    }

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

    fn of_queues(&self) -> String {
        let mut queues = self.report.queues.keys();
        match (queues.next(), queues.count()) {
            (Some(queue), 0) => format!(" of the queue {}", one_line(queue)),
            (_, more) => format!(" of {} queues", more + 1),
        }
    }

    /// What the old answers are called: those of the records, or of another policy.
    pub(super) fn old(&self) -> &'static str {
        match self.candidates.old {
            Some(_) => "old",
            None => "recorded",
        }
    }

    fn print_what(&self) {
        let recorded = &self.report.recorded;
        for (policy, records) in recorded.iter().take(TOLD) {
            let policy = match policy.as_str() {
                "" => "no policy at work",
                policy => policy,
            };
            match recorded.len() {
                1 => line("recorded", one_line(policy)),
                _ => line(
                    "recorded",
                    format!("{}: {}", one_line(policy), count(*records)),
                ),
            }
        }
        if recorded.len() > TOLD {
            let more = recorded.len() - TOLD;
            line("recorded", format!("{more} more policies: --json has them"));
        }
        let settings = "with the settings of each record";
        if self.candidates.old.is_some() {
            let old = self.candidates.old_label();
            line("against", format!("{old}, {settings}"));
        }
        for asked in self.candidates.new.evaluated() {
            let policy = one_line(&title(&asked));
            match (&asked.queue, asked.settings_as_recorded) {
                (Some(queue), _) => line("policy", format!("{}: {policy}", one_line(queue))),
                (None, true) => line("policy", format!("{policy}, {settings}")),
                (None, false) => line("policy", policy),
            }
        }
    }

    fn print_counts(&self) {
        let report = self.report;
        let records = format!("{}{}", count(report.records), self.of_queues());
        let same = count(report.same);
        let different = match report.different {
            0 => format!("{GREEN}none different{GREEN:#}"),
            some => format!(
                "{YELLOW}{} different ({}){YELLOW:#}",
                count(some),
                share(some, report.compared())
            ),
        };
        line(
            "records",
            format!("{records}: {same} the same, {different}"),
        );
        for (apart, records) in &report.apart {
            line(
                "apart",
                format!("{} not compared: {}", count(*records), self.why(*apart)),
            );
        }
        for (cause, records) in report.broken.iter().take(TOLD) {
            line(
                "broken",
                format!("{} times: the policy {}", count(*records), one_line(cause)),
            );
        }
        let settings = |cause: &String| {
            cause.starts_with("refuses its settings") || cause.starts_with("takes no settings")
        };
        if report.broken.keys().any(settings) {
            line(
                "",
                "give the policy settings of its own with --set NAME=VALUE",
            );
        }
        let unreadable = &report.unreadable;
        for NoRecord { place, why } in &unreadable.first {
            line(
                "unreadable",
                format!("{YELLOW}{place}{YELLOW:#} is {}", one_line(why)),
            );
        }
        let more = unreadable.lines - unreadable.first.len();
        if more > 0 {
            line("unreadable", format!("{} more lines", count(more)));
        }
        let others: usize = report.other_queues.values().sum();
        if others > 0 {
            let queues: Vec<_> = report
                .other_queues
                .keys()
                .map(|queue| one_line(queue))
                .collect();
            line(
                "left out",
                format!("{} of other queues: {}", count(others), queues.join(", ")),
            );
        }
    }

    fn why(&self, apart: NotComparable) -> String {
        match apart {
            NotComparable::LookedElsewhere => {
                let pointers = self.report.not_recorded.keys().take(TOLD);
                let pointers: Vec<_> = pointers.map(|pointer| one_line(pointer)).collect();
                let more = match self.report.not_recorded.len() {
                    ..=TOLD => "",
                    _ => " and more",
                };
                format!(
                    "the policy looks at {}{more}, which the records do not hold",
                    pointers.join(", ")
                )
            }
            NotComparable::OutOfTime => "a policy ran out of time on the clock, which is not repeatable".to_owned(),
            NotComparable::NoPolicy => "no policy was at work, the host decided".to_owned(),
            NotComparable::Bound => "the policy breaks, and as a bound of the queue's decided then, the records do not say whether the recorded one did".to_owned(),
        }
    }
}

/// A part in percent: `13.8 %`. What is not nothing is not shown as nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of lines of files")]
pub(super) fn share(part: usize, whole: usize) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    match percent {
        percent if part > 0 && percent < 0.1 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_share_is_not_shown_as_none() {
        for (part, whole, expected) in [
            (0, 0, "0.0 %"),
            (1, 1_000_000, "<0.1 %"),
            (138, 1_000, "13.8 %"),
            (7, 7, "100.0 %"),
        ] {
            assert_eq!(share(part, whole), expected);
        }
    }
}
