//! The second part of the output: tables of the differences and of the delays, with the delays of both sides as bars.

use std::fmt::Display;

use backstop_core::text::one_line;
use backstop_workbench::replay::{Delays, Report, STEPS};
use backstop_workbench::simulate::Rounded;

use super::comparison::{COLUMNS, columns};
use crate::terminal::{Table, bar, count, percent, println};

/// The width of the longest bar, in characters.
const BAR: usize = 28;

/// Prints the differences, if there are any, and the delays. `old_name` is the name of the old answers.
pub(super) fn print(report: &Report, old_name: &str) {
    if !report.changes.is_empty() {
        println!();
        println!("{}", changes(report, old_name));
    }
    delays(report, old_name);
}

/// A row for each kind of difference.
fn changes(report: &Report, old_name: &str) -> String {
    let headers = ["records", "share", "what", old_name, "new"].map(str::to_owned);
    let rows = report.changes.iter().map(|group| {
        let (what, old, new) = group.change.words();
        let records = count(group.records);
        let share = percent(group.records, report.compared());
        vec![
            records,
            share,
            what.to_owned(),
            one_line(old),
            one_line(new),
        ]
    });
    let table = Table {
        headers: headers.to_vec(),
        rows: rows.collect(),
        right: 2,
        flexible: 0..0,
    };
    table.fit(None).lines.join("\n")
}

/// The delays of both sides: percentiles, and bars.
fn delays(report: &Report, old_name: &str) {
    let (old, new) = (&report.old_delays, &report.new_delays);
    if old.records + new.records == 0 {
        return;
    }
    println!();
    line("delay", COLUMNS);
    for (name, delays) in [(old_name, old), ("new", new)] {
        line(name, columns(delays));
    }
    println!();
    println!("{}", header(old, new, [old_name, "new"]));
    for line in lines(old, new) {
        println!("{line}");
    }
}

fn line(name: &str, columns: [impl Display; 5]) {
    let [retries, median, p90, p99, longest] = columns;
    println!("{name:<14} {retries:>11} {median:>7} {p90:>7} {p99:>7} {longest:>7}");
}

/// One line for each range of delays, from the first range that has any to the last: the range, and the count and bar of both sides. Empty if there are no delays.
fn lines(old: &Delays, new: &Delays) -> Vec<String> {
    let pairs = || old.steps.into_iter().zip(new.steps);
    let has_any = |(old, new): (usize, usize)| old + new > 0;
    let first = pairs().position(has_any).unwrap_or(STEPS.len());
    let last = STEPS.len() - pairs().rev().position(has_any).unwrap_or(STEPS.len());
    let most = pairs().map(|(old, new)| old.max(new)).max().unwrap_or(0);
    let digits = most.to_string().len();
    let shown = STEPS.into_iter().zip(pairs()).enumerate();
    shown
        .filter(|(step, _)| (first..last).contains(step))
        .map(|(step, (from, (old, new)))| {
            let range = match STEPS.get(step + 1) {
                Some(to) if from == 0 => format!("to {}", Rounded(u64::from(*to))),
                Some(to) => format!("{} to {}", Rounded(from.into()), Rounded(u64::from(*to))),
                None => format!("from {}", Rounded(from.into())),
            };
            let [left, right] = [old, new].map(|count| bar(count as u64, most as u64, BAR));
            let line = format!("{range:<14} {old:>digits$} {left:<BAR$}  {new:>digits$} {right}");
            line.trim_end().to_owned()
        })
        .collect()
}

/// The header of [`lines`], with the labels above the two sides.
fn header(old: &Delays, new: &Delays, labels: [&str; 2]) -> String {
    let most = old.steps.into_iter().chain(new.steps).max().unwrap_or(0);
    let width = most.to_string().len() + 1 + BAR;
    let [left, right] = labels;
    format!("{:<14} {left:<width$}  {right}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_before_the_first_delay_and_after_the_last_are_left_out() {
        let mut old = Delays::default();
        let mut new = Delays::default();
        old.steps[7] = 10;
        new.steps[9] = 5;
        let (full, half) = ("█".repeat(BAR), "█".repeat(BAR / 2));
        assert_eq!(
            lines(&old, &new),
            [
                format!("1s to 2s       10 {full}   0"),
                format!("2s to 5s        0 {:BAR$}   0", ""),
                format!("5s to 10s       0 {:BAR$}   5 {half}", ""),
            ]
        );
        assert!(lines(&Delays::default(), &Delays::default()).is_empty());
        new.steps[23] = 1;
        let lines = lines(&old, &new);
        assert!(lines.last().unwrap().starts_with("from 7d"), "{lines:?}");
    }
}
