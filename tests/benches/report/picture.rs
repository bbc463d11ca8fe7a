//! A table's first column as bars.

use maud::{Markup, PreEscaped, html};
use tests_benches::{Chapter, Figure, Row, Table};

const WIDTH: f64 = 860.0;
const NAMES: f64 = 400.0;
const VALUES: f64 = 110.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;

/// Above this, the longest bar is so many times the shortest that a common scale would hide it.
const LINEAR: f64 = 40.0;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.v{fill:#57606a}.o{fill:#2f6fde}.t{fill:#9aa4b2}.s{stroke:#57606a;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.v{fill:#9aa4b2}.o{fill:#6aa5ff}.t{fill:#6e7681}.s{stroke:#c9d1d9}}";

/// Only where there is something to compare.
pub(crate) fn is_drawn(table: &Table) -> bool {
    table.drawn && bars(table).count() > 1
}

pub(crate) fn name(chapter: &Chapter, index: usize) -> String {
    format!("{}-{}.svg", chapter.name, index + 1)
}

/// The pictures of a chapter: names of files and what is in them.
pub(crate) fn of(chapter: &Chapter) -> Vec<(String, String)> {
    let tables = chapter.tables.iter().enumerate();
    tables
        .filter(|(_, table)| is_drawn(table))
        .map(|(index, table)| (name(chapter, index), svg(table)))
        .collect()
}

fn bars(table: &Table) -> impl Iterator<Item = (&Row, Figure)> {
    let rows = table.rows.iter();
    rows.filter_map(|row| Some((row, (*row.figures.first()?)?)))
}

fn svg(table: &Table) -> String {
    let values = || bars(table).map(|(_, figure)| figure.median);
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let logarithmic = least > 0.0 && most / least > LINEAR;
    let longest = WIDTH - NAMES - VALUES;
    let length = |value: f64| {
        if logarithmic {
            // The shortest bar is a tenth of the decade below it.
            longest * ((value / least).log10() + 0.1).max(0.0) / ((most / least).log10() + 0.1)
        } else {
            longest * value / most.max(f64::MIN_POSITIVE)
        }
    };
    let Some(column) = table.columns.first() else {
        return String::new();
    };
    let scale = if logarithmic { ", logarithmic" } else { "" };
    let height = ROW * (bars(table).count() as f64 + 1.5);
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(table.title) {
            style { (PreEscaped(STYLE)) }
            text x=(NAMES) y="18" { (column.name) (scale) }
            @for (index, (row, figure)) in bars(table).enumerate() {
                (bar(row, figure, column.unit.symbol(), ROW * (index as f64 + 1.25), &length))
            }
        }
    };
    drawn.into_string() + "\n"
}

fn bar(row: &Row, figure: Figure, unit: &str, top: f64, length: &impl Fn(f64) -> f64) -> Markup {
    let middle = top + ROW / 2.0;
    let long = length(figure.median);
    let class = if row.ours { "o" } else { "t" };
    html! {
        text x=(NAMES - 8.0) y=(middle + 4.0) text-anchor="end" { (shortened(&row.name)) }
        rect class=(class) x=(NAMES) y=(middle - BAR / 2.0) width=(format!("{long:.1}")) height=(BAR) rx="2" {}
        @if figure.rounds > 1 {
            line class="s" x1=(format!("{:.1}", NAMES + length(figure.lower_quartile))) x2=(format!("{:.1}", NAMES + length(figure.upper_quartile))) y1=(middle) y2=(middle) {}
        }
        text class="v" x=(format!("{:.1}", NAMES + long + 6.0)) y=(middle + 4.0) { (figure) (unit) }
    }
}

/// As much of a name as fits.
fn shortened(name: &str) -> String {
    const FITS: usize = 58;
    if name.chars().count() > FITS {
        name.chars().take(FITS - 1).chain(['…']).collect()
    } else {
        name.to_owned()
    }
}
