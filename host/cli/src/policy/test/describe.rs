//! Describes a failed test: the failure, what was expected and found, and the command that runs it again. Plain text, for the terminal and for reports.

use backstop_core::text::one_line;
use backstop_workbench::outcome::{Found, Outcome, Row};

use super::args::Args;
use crate::policy::failure_args::describe;
use crate::policy::quoted;

/// The mark of a comparison that does not hold.
pub(super) const CROSS: &str = "✗";

/// The widest column, in characters. Longer texts are shown one above the other.
const COLUMN: usize = 40;

/// The command that reproduces a found failure.
fn again(args: &Args, check: &str, found: &Found) -> String {
    let mut words = ["backstop", "policy", "test", &args.policy]
        .map(str::to_owned)
        .to_vec();
    if let Some(path) = &args.scenarios {
        words.extend(["--scenarios".to_owned(), path.display().to_string()]);
    }
    for (name, value) in &args.settings {
        words.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    let (seed, case) = (found.seed.to_string(), found.case.to_string());
    let found = ["--filter", check, "--seed", &seed, "--cases", &case];
    words.extend(found.map(str::to_owned));
    quoted(words)
}

/// The lines that describe a failed test.
pub(super) fn lines(outcome: &Outcome, args: &Args) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(tried) = &outcome.tried {
        lines.push(format!(
            "  evaluated with {}",
            one_line(&describe(&tried.failure))
        ));
    }
    lines.extend(table(&outcome.rows));
    for line in outcome.tried.iter().flat_map(|tried| &tried.log) {
        lines.push(format!(
            "  logged {}: {}",
            line.level,
            one_line(&line.message)
        ));
    }
    if let Some(found) = &outcome.found {
        if let Some(scenario) = &found.scenario {
            lines.push("  the minimised failure, as a scenario to keep:".to_owned());
            lines.push(String::new());
            lines.extend(scenario.lines().map(|line| format!("    {line}")));
            lines.push(String::new());
        }
        lines.push(format!(
            "  run again: {}",
            again(args, &outcome.name, found)
        ));
    }
    lines
}

/// Expected and found values side by side, or one above the other if that would be too wide.
fn table(rows: &[Row]) -> Vec<String> {
    let width = |cell: fn(&Row) -> &String, least: usize| {
        let cells = rows.iter().map(|row| one_line(cell(row)).chars().count());
        cells.max().unwrap_or(0).max(least)
    };
    let (what, expected) = (width(|row| &row.what, 0), width(|row| &row.expected, 8));
    let mark = |row: &Row| if row.holds { " " } else { CROSS };
    if expected > COLUMN || width(|row| &row.got, 0) > 2 * COLUMN {
        let stacked = rows.iter().flat_map(|row| {
            let (wanted, got) = (one_line(&row.expected), one_line(&row.got));
            [
                format!("{} {:<what$}  expected  {wanted}", mark(row), row.what),
                format!("  {:<what$}  got       {got}", ""),
            ]
        });
        return stacked.collect();
    }
    let head = format!("  {:<what$}  {:<expected$}  got", "", "expected");
    let body = rows.iter().map(|row| {
        let (wanted, got) = (one_line(&row.expected), one_line(&row.got));
        format!(
            "{} {:<what$}  {wanted:<expected$}  {got}",
            mark(row),
            row.what
        )
    });
    std::iter::once(head).chain(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_and_found_values_are_side_by_side() {
        let rows = [
            Row::new("class", "transient", "transient", true),
            Row::new("delay", "8s", "4s", false),
        ];
        assert_eq!(
            table(&rows),
            [
                "         expected   got",
                "  class  transient  transient",
                "✗ delay  8s         4s",
            ]
        );
    }

    #[test]
    fn long_texts_are_one_above_the_other_and_escaped() {
        let long = "x".repeat(COLUMN + 1);
        let rows = [Row::new("reason", long.as_str(), "a\u{1b}[31mb\nc", false)];
        assert_eq!(
            table(&rows),
            [
                format!("✗ reason  expected  {long}"),
                "          got       a\\u{1b}[31mb\\nc".to_owned(),
            ]
        );
    }
}
