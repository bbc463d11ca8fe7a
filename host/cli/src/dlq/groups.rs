//! Groups of letters, a line for each.

use backstop_core::failure::Timestamp;
use backstop_core::text::one_line;
use backstop_dead_letters::Groups;
use serde_json::{Map, Value, json};

use crate::terminal::{Table, columns, count, println, wrapped};
use crate::time::ago;

/// The most groups. Further letters are counted together.
pub(super) const MOST: usize = 1_000;

/// The columns before those of what the letters are grouped by.
const FIRST: [&str; 2] = ["letters", "died"];

/// Prints the groups as a table, the largest first.
pub(super) fn print(groups: &Groups, now: Timestamp) {
    let rows: Vec<_> = groups
        .largest_first()
        .into_iter()
        .map(|group| {
            let times = match (ago(group.first, now), ago(group.last, now)) {
                (first, last) if first == last => first,
                (first, last) => format!("{first} to {last}"),
            };
            let key = group.key.iter();
            let key = key.map(|value| value.as_deref().map_or("unknown".to_owned(), one_line));
            let sample = group.samples.first().map(|id| one_line(id));
            [count(group.count), times]
                .into_iter()
                .chain(key)
                .chain([sample.unwrap_or_default()])
                .collect()
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let by = groups.by().iter().map(|by| one_line(&by.to_string()));
    let headers = FIRST.map(str::to_owned).into_iter().chain(by);
    let table = Table {
        headers: headers.chain(["such as".to_owned()]).collect(),
        rows,
        right: 1,
        flexible: FIRST.len()..FIRST.len() + groups.by().len(),
    };
    let fitted = table.fit(columns());
    println!();
    for line in fitted.lines {
        println!("{line}");
    }
    if groups.ungrouped() > 0 {
        let more = format!(
            "in more than {} groups: choose with filters, or group by something else",
            count(MOST)
        );
        let more = wrapped(&more, 9, columns());
        println!("{:>7}  {more}", count(groups.ungrouped()));
    }
    if fitted.is_last_left_out {
        println!("\n`--letters` shows the ids; a wider terminal shows one of each group");
    }
}

/// The groups for programs.
pub(super) fn as_json(groups: &Groups) -> Value {
    let all = groups.largest_first().into_iter().map(|group| {
        let names = groups.by().iter().map(ToString::to_string);
        let by: Map<_, _> = names.zip(group.key.iter().map(|it| json!(it))).collect();
        json!({
            "by": by,
            "count": group.count,
            "first": group.first,
            "last": group.last,
            "samples": group.samples,
        })
    });
    all.collect()
}
