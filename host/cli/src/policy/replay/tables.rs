//! The second part of the output: tables of the differences and of the delays.

use backstop_core::text::one_line;
use backstop_workbench::replay::{Delays, Report};
use backstop_workbench::simulate::Rounded;

use super::bars;
use super::numbers::{count, percent};
use crate::output::println;
use crate::policy::table;

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
    let mut table = table::with_headers(&headers, 3);
    for group in &report.changes {
        let (what, old, new) = group.change.words();
        table.add_row([
            count(group.records).to_string(),
            percent(group.records, report.compared()),
            what.to_owned(),
            one_line(old),
            one_line(new),
        ]);
    }
    table.trim_fmt()
}

/// The delays of both sides: percentiles, and bars.
fn delays(report: &Report, old_name: &str) {
    let (old, new) = (&report.old_delays, &report.new_delays);
    if old.records + new.records == 0 {
        return;
    }
    println!();
    println!(
        "{:<14} {:>11} {:>7} {:>7} {:>7} {:>7}",
        "delay", "retries", "median", "p90", "p99", "longest"
    );
    for (name, delays) in [(old_name, old), ("new", new)] {
        let Delays {
            records,
            median,
            p90,
            p99,
            longest,
            ..
        } = delays;
        let columns = [median, p90, p99, longest].map(|delay| Rounded(u64::from(*delay)));
        let [median, p90, p99, longest] = columns;
        println!(
            "{name:<14} {:>11} {median:>7} {p90:>7} {p99:>7} {longest:>7}",
            count(*records).to_string()
        );
    }
    println!();
    println!("{}", bars::header(old, new, [old_name, "new"]));
    for line in bars::lines(old, new) {
        println!("{line}");
    }
}
