//! The comparison as Markdown for a comment on a pull request: tables, and the delays as a chart that GitHub draws.
//!
//! It has no samples: the error of a message is not for everybody who can read a pull request. Names come from policies and records, so each stands in a span of code, where nothing is a link, a mention or HTML.

use std::fmt::Write as _;

use backstop_core::text::one_line;
use backstop_workbench::replay::{Report, STEPS};
use backstop_workbench::simulate::Rounded;

use super::candidates::title;
use super::comparison::{COLUMNS, Comparison, columns};
use crate::terminal::{count, percent, short};

/// The most rows of a table: a comment has at most 65,536 characters.
const ROWS: usize = 20;

/// The longest name, in characters.
const NAME: usize = 80;

/// By this, a comment of an earlier run is found again.
const MARK: &str = "<!-- backstop policy replay -->";

/// The whole comment.
pub(super) fn comment(comparison: &Comparison<'_>) -> String {
    let report = comparison.report;
    let mut text = format!("{MARK}\n### {}\n\n", headline(comparison));
    text += &policies(comparison);
    text += &changes(comparison);
    text += &left_out(report);
    text += &delays(comparison);
    text += &chart(comparison);
    text
}

/// What was replayed, and what came of it.
fn headline(comparison: &Comparison<'_>) -> String {
    let report = comparison.report;
    let compared = report.compared();
    let queues = match report.queues.len() {
        1 => "one queue".to_owned(),
        many => format!("{} queues", count(many)),
    };
    let different = match report.different {
        0 => "none differs".to_owned(),
        some => format!("{} ({}) differ", count(some), percent(some, compared)),
    };
    format!(
        "Replay of {} recorded decisions of {queues}: {different}",
        count(compared)
    )
}

/// Which policies are compared.
fn policies(comparison: &Comparison<'_>) -> String {
    let mut text = "| | policy |\n|---|---|\n".to_owned();
    match &comparison.candidates.old {
        Some(_) => row(
            &mut text,
            &["old", &code(&comparison.candidates.old_label())],
        ),
        None => {
            for policy in comparison.report.recorded.keys().take(ROWS) {
                let policy = if policy.is_empty() {
                    "no active policy".to_owned()
                } else {
                    code(policy)
                };
                row(&mut text, &["recorded", &policy]);
            }
        }
    }
    for evaluated in comparison.candidates.new.evaluated().iter().take(ROWS) {
        let queue = evaluated.queue.as_deref().map(code);
        let name = queue.map_or("new".to_owned(), |queue| format!("new, {queue}"));
        row(&mut text, &[&name, &code(&title(evaluated))]);
    }
    text + "\n"
}

/// A row for each kind of difference.
fn changes(comparison: &Comparison<'_>) -> String {
    let report = comparison.report;
    if report.changes.is_empty() {
        return String::new();
    }
    let old_name = comparison.old_name();
    let mut text =
        format!("| records | share | what | {old_name} | new |\n|--:|--:|---|---|---|\n");
    for group in report.changes.iter().take(ROWS) {
        let (what, old, new) = group.change.words();
        let share = percent(group.records, report.compared());
        let records = count(group.records);
        row(&mut text, &[&records, &share, what, &code(old), &code(new)]);
    }
    text += "\n";
    if report.changes.len() > ROWS {
        let more = report.changes.len() - ROWS;
        let _ = write!(text, "And {more} more kinds of differences.\n\n");
    }
    text
}

/// What was not compared, and how the new policy broke.
fn left_out(report: &Report) -> String {
    let mut text = String::new();
    for (cause, records) in report.broken.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "- **The new policy breaks {} times**: it {}",
            count(*records),
            code(cause)
        );
    }
    let skipped: usize = report.not_comparable.values().sum();
    for (what, records) in [
        ("records could not be compared", skipped),
        ("lines are no records", report.unreadable.lines),
        (
            "records are of other queues",
            report.other_queues.values().sum(),
        ),
    ] {
        if records > 0 {
            let _ = writeln!(text, "- {} {what}.", count(records));
        }
    }
    if !text.is_empty() {
        text += "\n";
    }
    text
}

/// The percentiles of both sides.
fn delays(comparison: &Comparison<'_>) -> String {
    let (old, new) = (&comparison.report.old_delays, &comparison.report.new_delays);
    if old.records + new.records == 0 {
        return String::new();
    }
    let mut text = format!(
        "| delay | {} |\n|---|--:|--:|--:|--:|--:|\n",
        COLUMNS.join(" | ")
    );
    for (name, delays) in [(comparison.old_name(), old), ("new", new)] {
        let [retries, median, p90, p99, longest] = columns(delays);
        row(&mut text, &[name, &retries, &median, &p90, &p99, &longest]);
    }
    text + "\n"
}

/// How many retries have which delay: the old ones as a line over the bars of the new ones.
fn chart(comparison: &Comparison<'_>) -> String {
    let (old, new) = (&comparison.report.old_delays, &comparison.report.new_delays);
    let pairs = || STEPS.into_iter().zip(old.steps.into_iter().zip(new.steps));
    let has_any = |(_, (old, new)): &(u32, (usize, usize))| old + new > 0;
    let Some(first) = pairs().position(|it| has_any(&it)) else {
        return String::new();
    };
    let last = pairs().rfind(has_any).map(|(from, _)| from);
    let shown: Vec<_> = pairs()
        .skip(first)
        .take_while(|(from, _)| Some(*from) <= last)
        .collect();
    let names: Vec<_> = shown
        .iter()
        .map(|(from, _)| format!("\"{}\"", Rounded(u64::from(*from))))
        .collect();
    let list = |of: fn(&(usize, usize)) -> usize| {
        let numbers: Vec<_> = shown.iter().map(|(_, pair)| of(pair).to_string()).collect();
        numbers.join(", ")
    };
    let most = shown.iter().map(|(_, (old, new))| old.max(new)).max();
    format!(
        "```mermaid\nxychart-beta\n    title \"Retries by delay: the line is {}, the bars are new\"\n    x-axis \"delay from\" [{}]\n    y-axis \"retries\" 0 --> {}\n    bar [{}]\n    line [{}]\n```\n",
        comparison.old_name(),
        names.join(", "),
        most.copied().unwrap_or(1),
        list(|(_, new)| *new),
        list(|(old, _)| *old),
    )
}

fn row(text: &mut String, cells: &[&str]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// A name that a policy or a record has chosen, as a span of code in a table.
fn code(name: &str) -> String {
    let name = short(&one_line(name), NAME).replace('`', "'");
    match name.trim() {
        "" => String::new(),
        name => format!("`{}`", name.replace('|', "\\|")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_leave_its_span() {
        for (name, expected) in [
            ("retry", "`retry`"),
            ("", ""),
            ("a` @team <img src=x> `b", "`a' @team <img src=x> 'b`"),
            ("a|b\nc", "`a\\|b\\nc`"),
        ] {
            assert_eq!(code(name), expected);
        }
        assert!(code(&"x".repeat(1000)).chars().count() <= NAME + 3);
    }
}
