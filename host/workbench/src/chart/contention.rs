//! The chart of a contention sweep: time to completion and calls by number of clients, with a line for each contender.

use super::axis::{grouped, linear_ticks, logarithmic_ticks};
use super::canvas::{Anchor, Backend, Canvas, Drawn};
use super::render::Chart;
use super::style::{INK, MARGIN, QUIET, colour, marker};
use crate::simulate::Spread;
use crate::simulate::contention::Cell;

const WIDTH: u32 = 960;

/// The position of the legend's first line, and the height of a line.
const LEGEND: f64 = 92.0;
const LEGEND_LINE: f64 = 22.0;

/// The height of the plots, and the left and right edge of each.
const PLOT: f64 = 320.0;
const PLOTS: [(f64, f64); 2] = [(96.0, 472.0), (568.0, 944.0)];

/// The results of a sweep.
#[derive(Debug)]
pub struct ContentionChart<'a> {
    /// The cells of the sweep, by contender, then by number of clients.
    pub cells: &'a [Cell],
    /// The number of runs of each cell.
    pub runs: u32,
}

/// A contender's cells.
type Series<'a> = &'a [Cell];

impl Chart for ContentionChart<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few hundred points"
    )]
    fn size(&self) -> (u32, u32) {
        (WIDTH, (self.top() + PLOT + 62.0) as u32)
    }

    fn title(&self) -> String {
        "What contention costs, policy by policy".to_owned()
    }

    fn description(&self) -> String {
        let ends: Vec<_> = self
            .series()
            .filter_map(|series| series.last())
            .map(|cell| {
                format!(
                    "{} takes {:.0} ms and {:.0} calls with {} clients",
                    cell.policy, cell.time.mean, cell.calls.mean, cell.clients
                )
            })
            .collect();
        format!("Means of {} runs: {}.", self.runs, ends.join("; "))
    }

    fn subtitle(&self) -> String {
        format!(
            "Clients that each commit once to the same row: the mean of {} runs, in a band from the 5th to the 95th percentile.",
            grouped(f64::from(self.runs))
        )
    }

    fn draw<B: Backend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        for (number, (label, (x, y))) in self.legend().into_iter().enumerate() {
            canvas.line(&[(x, y), (x + 22.0, y)], colour(number), 2.0)?;
            canvas.marker((x + 11.0, y), 4.0, marker(number), colour(number))?;
            canvas.text(label, (x + 30.0, y), Anchor::Start, 12.5, INK)?;
        }
        let [left, right] = PLOTS;
        self.draw_plot(
            canvas,
            left,
            "time to completion, in ms (logarithmic)",
            |cell| cell.time,
        )?;
        self.draw_plot(canvas, right, "calls (logarithmic)", |cell| cell.calls)
    }
}

impl ContentionChart<'_> {
    fn series(&self) -> impl Iterator<Item = Series<'_>> {
        self.cells.chunk_by(|one, next| one.policy == next.policy)
    }

    /// The label and position of each contender, with line breaks where needed.
    #[expect(clippy::cast_precision_loss, reason = "the length of a label")]
    fn legend(&self) -> Vec<(&str, (f64, f64))> {
        let (mut x, mut y) = (MARGIN, LEGEND);
        let labels = self.series().filter_map(|series| series.first());
        labels
            .map(|cell| {
                let width = 54.0 + 6.6 * cell.policy.chars().count() as f64;
                if x > MARGIN && x + width > f64::from(WIDTH) {
                    (x, y) = (MARGIN, y + LEGEND_LINE);
                }
                let position = (x, y);
                x += width;
                (cell.policy.as_str(), position)
            })
            .collect()
    }

    fn top(&self) -> f64 {
        self.legend().last().map_or(LEGEND, |(_, (_, y))| *y) + 46.0
    }

    fn draw_plot<B: Backend>(
        &self,
        canvas: &Canvas<'_, B>,
        (left, right): (f64, f64),
        heading: &str,
        value: fn(&Cell) -> Spread,
    ) -> Drawn {
        let (top, floor) = (self.top(), self.top() + PLOT);
        let least = self.cells.iter().map(|cell| value(cell).p5);
        let most = self.cells.iter().map(|cell| value(cell).p95);
        let up = logarithmic_ticks(least.fold(f64::MAX, f64::min), most.fold(1.0, f64::max));
        let least = up.first().copied().unwrap_or(1.0);
        let most = up.last().copied().unwrap_or(10.0);
        let clients = self.cells.iter().map(|cell| f64::from(cell.clients));
        let across = linear_ticks(clients.fold(1.0, f64::max));
        let widest = across.last().copied().unwrap_or(1.0);
        let x = |clients: f64| left + (right - left) * clients / widest;
        let y = |value: f64| {
            floor - (floor - top) * (value.max(least) / least).ln() / (most / least).ln()
        };
        canvas.text(heading, (left, top - 20.0), Anchor::Start, 13.0, INK)?;
        for tick in up {
            canvas.grid((left, y(tick)), (right, y(tick)))?;
            let position = (left - 8.0, y(tick));
            canvas.text(&grouped(tick), position, Anchor::End, 12.0, QUIET)?;
        }
        for tick in across {
            let position = (x(tick), floor + 15.0);
            canvas.text(&grouped(tick), position, Anchor::Middle, 12.0, QUIET)?;
        }
        let middle = (left.midpoint(right), floor + 38.0);
        canvas.text("clients", middle, Anchor::Middle, 12.0, QUIET)?;
        for (number, series) in self.series().enumerate() {
            let position = |cell: &Cell, value: f64| (x(cell.clients.into()), y(value));
            let above = series.iter().map(|cell| position(cell, value(cell).p95));
            let below = series
                .iter()
                .rev()
                .map(|cell| position(cell, value(cell).p5));
            let band: Vec<_> = above.chain(below).collect();
            canvas.area(&band, colour(number), 0.14)?;
        }
        for (number, series) in self.series().enumerate() {
            let means = series
                .iter()
                .map(|cell| (x(cell.clients.into()), y(value(cell).mean)));
            let means: Vec<_> = means.collect();
            canvas.line(&means, colour(number), 1.5)?;
            for mean in means {
                canvas.marker(mean, 3.2, marker(number), colour(number))?;
            }
        }
        Ok(())
    }
}
