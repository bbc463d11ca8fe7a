//! The first part of the output: what was replayed, and how many decisions differ.

use backstop_core::text::one_line;
use backstop_workbench::replay::{NoRecord, NotComparable};

use super::candidates::title;
use super::comparison::Comparison;
use crate::terminal::style::{GREEN, YELLOW};
use crate::terminal::{count, percent, println};

/// At most this many causes, pointers and policies are listed.
const MAX_LISTED: usize = 5;

/// Prints a name and a text.
macro_rules! line {
    ($name:literal, $($text:tt)*) => {
        println!("{:<10} {}", $name, format_args!($($text)*))
    };
}

/// Prints the policies and the counts.
pub(super) fn print(comparison: &Comparison<'_>) {
    print_policies(comparison);
    print_counts(comparison);
    print_causes(comparison);
    print_left_out(comparison);
}

fn print_policies(comparison: &Comparison<'_>) {
    let recorded = &comparison.report.recorded;
    for (policy, records) in recorded.iter().take(MAX_LISTED) {
        let policy = match policy.as_str() {
            "" => "no active policy",
            policy => policy,
        };
        match recorded.len() {
            1 => line!("recorded", "{}", one_line(policy)),
            _ => line!("recorded", "{}: {}", one_line(policy), count(*records)),
        }
    }
    if recorded.len() > MAX_LISTED {
        let more = recorded.len() - MAX_LISTED;
        line!("recorded", "{more} more policies: --json lists them");
    }
    let settings = "with the settings of each record";
    if comparison.candidates.old.is_some() {
        let old = comparison.candidates.old_label();
        line!("against", "{old}, {settings}");
    }
    for evaluated in comparison.candidates.new.evaluated() {
        let policy = one_line(&title(&evaluated));
        match (&evaluated.queue, evaluated.settings_as_recorded) {
            (Some(queue), _) => line!("policy", "{}: {policy}", one_line(queue)),
            (None, true) => line!("policy", "{policy}, {settings}"),
            (None, false) => line!("policy", "{}", policy),
        }
    }
}

fn print_counts(comparison: &Comparison<'_>) {
    let report = comparison.report;
    let records = format!("{}{}", count(report.records), comparison.of_queues());
    let same = count(report.same);
    let different = match report.different {
        0 => format!("{GREEN}none different{GREEN:#}"),
        some => format!(
            "{YELLOW}{} different ({}){YELLOW:#}",
            count(some),
            percent(some, report.compared())
        ),
    };
    line!("records", "{records}: {same} the same, {different}");
}

/// Why records were not compared, and how the new policy broke.
fn print_causes(comparison: &Comparison<'_>) {
    let report = comparison.report;
    for (reason, records) in &report.not_comparable {
        let reason = explain(*reason, comparison);
        line!("skipped", "{} not compared: {reason}", count(*records));
    }
    for (cause, records) in report.broken.iter().take(MAX_LISTED) {
        line!(
            "broken",
            "{} times: the policy {}",
            count(*records),
            one_line(cause)
        );
    }
    let is_about_settings = |cause: &String| {
        cause.starts_with("refuses its settings") || cause.starts_with("takes no settings")
    };
    if report.broken.keys().any(is_about_settings) {
        line!(
            "",
            "give the policy settings of its own with --set NAME=VALUE"
        );
    }
}

/// Lines that are not records, and records of other queues.
fn print_left_out(comparison: &Comparison<'_>) {
    let report = comparison.report;
    let unreadable = &report.unreadable;
    for NoRecord { place, why } in &unreadable.first {
        line!(
            "unreadable",
            "{YELLOW}{place}{YELLOW:#} is {}",
            one_line(why)
        );
    }
    let more = unreadable.lines - unreadable.first.len();
    if more > 0 {
        line!("unreadable", "{} more lines", count(more));
    }
    let others: usize = report.other_queues.values().sum();
    if others > 0 {
        let queues: Vec<_> = report
            .other_queues
            .keys()
            .map(|queue| one_line(queue))
            .collect();
        line!(
            "left out",
            "{} of other queues: {}",
            count(others),
            queues.join(", ")
        );
    }
}

fn explain(reason: NotComparable, comparison: &Comparison<'_>) -> String {
    match reason {
        NotComparable::NotRecorded => {
            let missing = &comparison.report.not_recorded;
            let pointers = missing.keys().take(MAX_LISTED);
            let pointers: Vec<_> = pointers.map(|pointer| one_line(pointer)).collect();
            let more = match missing.len() {
                ..=MAX_LISTED => "",
                _ => " and more",
            };
            format!(
                "the policy reads {}{more} of the payload, which the records do not contain",
                pointers.join(", ")
            )
        }
        NotComparable::OutOfTime => {
            "a policy exceeded its time limit, which is not repeatable".to_owned()
        }
        NotComparable::NoPolicy => "no policy was active, the host decided".to_owned(),
        NotComparable::Bound => {
            "the policy breaks; a queue limit decided then, so the records do not show whether the recorded policy broke too".to_owned()
        }
    }
}
