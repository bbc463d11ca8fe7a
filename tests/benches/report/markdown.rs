//! The report as Markdown.

use std::fmt::Write;

use tests_benches::{Chapter, Column, Figure, Table};

use crate::losses;
use crate::machine::Machine;
use crate::picture;

pub(crate) fn report(machine: &Machine, missing: &[&str], chapters: &[Chapter]) -> String {
    let mut text = String::from("# Side by side\n\n");
    let Machine {
        processor,
        processors,
        memory,
        kernel,
        rust,
        commit,
        day,
    } = machine;
    writeln!(
        text,
        "`make bench` writes this report. Measured on {day} at commit `{commit}` on {processors} processors ({processor}, {memory} of memory, Linux {kernel}) with {rust}. Everything runs on one machine, the emulators included: compare the rows of one table, and measure rates on your own.\n\nA figure is the median of its rounds. In brackets is its spread: the middle half of the rounds, as a share of the median. A figure without brackets was measured once, or is a count.\n"
    )
    .unwrap();
    if !missing.is_empty() {
        writeln!(text, "Not measured in this run: {}.\n", missing.join(", ")).unwrap();
    }
    lost(&mut text, chapters);
    for chapter in chapters {
        writeln!(text, "## {}\n\n{}\n", chapter.title, chapter.about).unwrap();
        for (index, table) in chapter.tables.iter().enumerate() {
            show(&mut text, table);
            if picture::is_drawn(table) {
                let name = picture::name(chapter, index);
                writeln!(text, "![{}]({name})\n", table.title).unwrap();
            }
            if !table.why.is_empty() {
                writeln!(text, "{}\n", table.why).unwrap();
            }
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Where Backstop loses: each figure of others that is better than Backstop's best of that table.
fn lost(text: &mut String, chapters: &[Chapter]) {
    text.push_str("## Where Backstop loses\n\nEach figure of others that is better than Backstop's best one in the same table. The table's own text says why.\n\n| what | Backstop | better | times |\n|---|---|---|---:|\n");
    for loss in losses::of(chapters) {
        let side = |(name, figure): (&str, Figure)| {
            format!("{} ({})", cell(loss.column, Some(figure)), escaped(name))
        };
        writeln!(
            text,
            "| {}: {}, {} | {} | {} | {:.2} |",
            loss.chapter.title,
            escaped(&loss.table.title),
            loss.column.name,
            side(loss.ours),
            side(loss.theirs),
            loss.times()
        )
        .unwrap();
    }
    text.push('\n');
}

fn show(text: &mut String, table: &Table) {
    write!(text, "| {} |", escaped(&table.title)).unwrap();
    for column in &table.columns {
        write!(text, " {} |", column.name).unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(table.columns.len()));
    text.push('\n');
    for row in &table.rows {
        let name = escaped(&row.name);
        let name = if row.ours {
            format!("**{name}**")
        } else {
            name
        };
        write!(text, "| {name} |").unwrap();
        for (column, figure) in table.columns.iter().zip(&row.figures) {
            write!(text, " {} |", cell(column, *figure)).unwrap();
        }
        text.push('\n');
    }
    text.push('\n');
}

fn cell(column: &Column, figure: Option<Figure>) -> String {
    let Some(figure) = figure else {
        return "–".to_owned();
    };
    let value = format!("{figure}{}", column.unit.symbol());
    match figure.spread() {
        Some(spread) => format!("{value} ({spread:.0} %)"),
        None => value,
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
