//! What contention costs: time to completion and calls over the number of clients, a line for each contender.

use plotters::prelude::DrawingBackend;

use super::axis::{grouped, round_marks, steep_marks};
use super::canvas::{Canvas, Stands};
use super::error::ChartError;
use super::render::Chart;
use super::style::{INK, QUIET, colour, mark};
use crate::simulate::Spread;
use crate::simulate::contention::Cell;

const WIDTH: u32 = 960;
const MARGIN: f64 = 32.0;

/// The first line of the legend, and from one line to the next.
const LEGEND: f64 = 92.0;
const LEGEND_LINE: f64 = 22.0;

/// The plots: their height, and where each begins and ends.
const PLOT: f64 = 320.0;
const PLOTS: [(f64, f64); 2] = [(96.0, 472.0), (568.0, 944.0)];

/// The results of a sweep.
#[derive(Debug)]
pub struct ContentionChart<'a> {
    /// The cells of the sweep: those of one contender one after the other, by number of clients.
    pub cells: &'a [Cell],
    /// Runs of each.
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

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Result<(), ChartError>
    where
        B::ErrorType: 'static,
    {
        let under = format!(
            "Clients that each commit once to the same row: the mean of {} runs, in a band that holds nine in ten.",
            grouped(f64::from(self.runs))
        );
        canvas.text(&self.title(), (MARGIN, 38.0), Stands::After, 18.0, INK)?;
        canvas.text(&under, (MARGIN, 64.0), Stands::After, 12.5, QUIET)?;
        for (number, (label, (x, y))) in self.legend().into_iter().enumerate() {
            canvas.line(&[(x, y), (x + 22.0, y)], colour(number), 2.0)?;
            canvas.mark((x + 11.0, y), 4.0, mark(number), colour(number))?;
            canvas.text(label, (x + 30.0, y), Stands::After, 12.5, INK)?;
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

    /// Each contender's label and place, as many to a line as there is room for.
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
                let place = (x, y);
                x += width;
                (cell.policy.as_str(), place)
            })
            .collect()
    }

    fn top(&self) -> f64 {
        self.legend().last().map_or(LEGEND, |(_, (_, y))| *y) + 46.0
    }

    fn draw_plot<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        (left, right): (f64, f64),
        heading: &str,
        value: fn(&Cell) -> Spread,
    ) -> Result<(), ChartError>
    where
        B::ErrorType: 'static,
    {
        let (top, floor) = (self.top(), self.top() + PLOT);
        let least = self.cells.iter().map(|cell| value(cell).p5);
        let most = self.cells.iter().map(|cell| value(cell).p95);
        let up = steep_marks(least.fold(f64::MAX, f64::min), most.fold(1.0, f64::max));
        let least = up.first().copied().unwrap_or(1.0);
        let most = up.last().copied().unwrap_or(10.0);
        let clients = self.cells.iter().map(|cell| f64::from(cell.clients));
        let across = round_marks(clients.fold(1.0, f64::max));
        let widest = across.last().copied().unwrap_or(1.0);
        let x = |clients: f64| left + (right - left) * clients / widest;
        let y = |value: f64| {
            floor - (floor - top) * (value.max(least) / least).ln() / (most / least).ln()
        };
        canvas.text(heading, (left, top - 20.0), Stands::After, 13.0, INK)?;
        for mark in up {
            canvas.grid((left, y(mark)), (right, y(mark)))?;
            let place = (left - 8.0, y(mark));
            canvas.text(&grouped(mark), place, Stands::Before, 12.0, QUIET)?;
        }
        for mark in across {
            let place = (x(mark), floor + 15.0);
            canvas.text(&grouped(mark), place, Stands::Around, 12.0, QUIET)?;
        }
        let middle = (left.midpoint(right), floor + 38.0);
        canvas.text("clients", middle, Stands::Around, 12.0, QUIET)?;
        for (number, series) in self.series().enumerate() {
            let place = |cell: &Cell, value: f64| (x(cell.clients.into()), y(value));
            let above = series.iter().map(|cell| place(cell, value(cell).p95));
            let below = series.iter().rev().map(|cell| place(cell, value(cell).p5));
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
                canvas.mark(mean, 3.2, mark(number), colour(number))?;
            }
        }
        Ok(())
    }
}
