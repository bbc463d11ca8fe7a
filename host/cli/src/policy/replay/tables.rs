//! What differs, and how long is waited, as tables.

use crate::output::println;

use super::bars;
use super::shown::{count, share};
use crate::policy::table;
use backstop_core::text::one_line;
use backstop_workbench::replay::{Delays, Report};
use backstop_workbench::simulate::Rounded;

/// The differences, if there are any, and the delays. `old_name` is what the old answers are called.
pub(super) fn print(report: &Report, old_name: &str) {
    if !report.changes.is_empty() {
        println!();
        println!("{}", changes(report, old_name));
    }
    delays(report, old_name);
}

/// A row for each kind of difference.
fn changes(report: &Report, old_name: &str) -> String {
    let heads = ["records", "share", "what", old_name, "new"].map(str::to_owned);
    let mut table = table::with_heads(&heads, 3);
    for group in &report.changes {
        let (what, old, new) = group.change.words();
        table.add_row([
            count(group.records).to_string(),
            share(group.records, report.compared()),
            what.to_owned(),
            one_line(old),
            one_line(new),
        ]);
    }
    table.trim_fmt()
}

/// The delays of both: percentiles, and bars beside one another.
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
        let spans = [median, p90, p99, longest].map(|span| Rounded(u64::from(*span)));
        let [median, p90, p99, longest] = spans;
        println!(
            "{name:<14} {:>11} {median:>7} {p90:>7} {p99:>7} {longest:>7}",
            count(*records).to_string()
        );
    }
    println!();
    println!("{}", bars::heads(old, new, [old_name, "new"]));
    for line in bars::lines(old, new) {
        println!("{line}");
    }
}
