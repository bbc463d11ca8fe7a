//! Charts: bars in SVG, without a style or a script of their own.

use backstop_core::failure::Timestamp;
use maud::{Markup, html};

use super::text::{clock, count, day_and_clock, duration};
use crate::waiting::Due;

/// The size of a chart in its own units. The page scales it.
const WIDTH: usize = 720;
const HEIGHT: usize = 120;

/// The most bars of a chart. More minutes are added together.
pub(super) const BARS: usize = 120;

/// Bars that are stacked: for each its name, and the numbers of its parts.
pub(super) struct Chart<'a> {
    /// What it shows, for those who don't see it.
    pub(super) label: String,
    /// The names of the parts; each is a class of the style, too.
    pub(super) parts: &'a [&'static str],
    pub(super) bars: Vec<Bar>,
    /// What stands below its left and its right end.
    pub(super) ends: [String; 2],
}

/// One bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bar {
    /// Its time, for those who point at it.
    pub(super) at: String,
    pub(super) parts: Vec<u64>,
    /// What happened in it: a swap, a pause.
    pub(super) marks: Vec<String>,
}

impl Chart<'_> {
    pub(super) fn svg(&self) -> Markup {
        let most = self
            .bars
            .iter()
            .map(|bar| bar.parts.iter().sum::<u64>())
            .max();
        let most = most.unwrap_or_default().max(1);
        let number = self.bars.len().max(1);
        html! {
            figure .chart {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.label) preserveAspectRatio="none" {
                    @for (index, bar) in self.bars.iter().enumerate() {
                        (self.bar(bar, index * WIDTH / number, (index + 1) * WIDTH / number, most))
                    }
                }
                figcaption {
                    span { (self.ends[0]) }
                    span .key {
                        @for part in self.parts { span class={ "dot " (part) } { (part) } }
                        span { "highest bar: " (count(most)) }
                    }
                    span { (self.ends[1]) }
                }
            }
        }
    }

    fn bar(&self, bar: &Bar, left: usize, right: usize, most: u64) -> Markup {
        let width = right.saturating_sub(left).max(1);
        let mut top = HEIGHT;
        let mut parts = Vec::new();
        for (name, number) in self.parts.iter().zip(&bar.parts) {
            let height = height(*number, most);
            top = top.saturating_sub(height);
            parts.push((*name, top, height));
        }
        let numbers = self.parts.iter().zip(&bar.parts);
        let numbers = numbers.filter(|(_, number)| **number > 0);
        let numbers = numbers.map(|(name, number)| format!("{name} {}", count(*number)));
        let lines = std::iter::once(bar.at.clone())
            .chain(numbers)
            .chain(bar.marks.iter().cloned());
        let title = lines.collect::<Vec<_>>().join("\n");
        html! {
            g {
                title { (title) }
                rect .back x=(left) y="0" width=(width) height=(HEIGHT) {}
                @for (name, top, height) in parts {
                    @if height > 0 { rect class=(name) x=(left) y=(top) width=(width) height=(height) {} }
                }
                @if !bar.marks.is_empty() { rect .mark x=(left) y="0" width="2" height=(HEIGHT) {} }
            }
        }
    }
}

/// When what waits in a queue is due.
pub(super) fn timeline<'a>(queue: &str, due: &Due) -> Chart<'a> {
    let step = u64::from(due.step.0);
    let bar = |(index, number): (usize, &u64)| {
        let from = Timestamp(due.from.0 + index as u64 * step);
        Bar {
            at: format!("from {}", clock(from)),
            parts: vec![*number],
            marks: Vec::new(),
        }
    };
    let end = Timestamp(due.from.0 + due.counts.len() as u64 * step);
    Chart {
        label: format!(
            "When the waiting messages of {queue} are due, in steps of {}",
            duration(step)
        ),
        parts: &["waiting"],
        bars: due.counts.iter().enumerate().map(bar).collect(),
        ends: ["now".to_owned(), format!("{} (UTC)", day_and_clock(end))],
    }
}

/// How high a number stands; one that is there can be seen.
fn height(number: u64, most: u64) -> usize {
    let full = u128::from(HEIGHT as u64);
    let height = u128::from(number) * full / u128::from(most.max(1));
    let height = usize::try_from(height).unwrap_or(HEIGHT);
    if number > 0 { height.max(1) } else { 0 }
}

/// How many numbers make a bar, so that there are not too many bars.
pub(super) fn in_a_bar(numbers: usize) -> usize {
    numbers.div_ceil(BARS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_and_what_is_small_can_be_seen() {
        assert_eq!(
            [height(0, 9), height(1, 1_000_000), height(9, 9)],
            [0, 1, HEIGHT]
        );
        assert_eq!(
            [in_a_bar(0), in_a_bar(120), in_a_bar(121), in_a_bar(1_440)],
            [1, 1, 2, 12]
        );
    }

    #[test]
    fn a_chart_escapes_its_texts() {
        let chart = Chart {
            label: "\"><script>".to_owned(),
            parts: &["succeeded"],
            bars: vec![Bar {
                at: "</title><script>".to_owned(),
                parts: vec![3],
                marks: vec!["<b>".to_owned()],
            }],
            ends: ["<i>".to_owned(), String::new()],
        };
        let text = chart.svg().into_string();
        assert!(
            !text.contains("<script>") && !text.contains("<b>") && !text.contains("<i>"),
            "{text}"
        );
    }
}
