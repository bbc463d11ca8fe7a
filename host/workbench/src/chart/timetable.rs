//! The chart of a timetable: a bar for each attempt on a logarithmic time axis, and below it a histogram of all retries.

use plotters::prelude::DrawingBackend;

use super::axis::{TimeAxis, grouped, with_unit};
use super::canvas::{Anchor, Canvas, Point};
use super::error::ChartError;
use super::render::Chart;
use super::style::{BLUE, INK, ORANGE, QUIET};
use crate::simulate::timetable::{Row, Timetable};

const WIDTH: u32 = 820;
const LEFT: f64 = 104.0;
const RIGHT: f64 = 712.0;
const TOP: f64 = 108.0;
/// The right edge of the medians, to the right of the bars.
const MEDIANS: f64 = 790.0;

/// The maximum height of all rows together, and of one row.
const TALLEST: f64 = 600.0;
const TALLEST_ROW: f64 = 26.0;

/// The gap between rows and histogram, and the height of the histogram.
const GAP: f64 = 50.0;
const HISTOGRAM: f64 = 96.0;

/// The number of bins of the histogram, all equally wide on the axis.
const BINS: usize = 76;

/// The timetable of one policy.
#[derive(Debug)]
pub struct TimetableChart<'a> {
    /// The policy and its settings.
    pub label: &'a str,
    /// The error that every attempt fails with.
    pub code: &'a str,
    /// The timetable.
    pub timetable: &'a Timetable,
}

impl Chart for TimetableChart<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few hundred points"
    )]
    fn size(&self) -> (u32, u32) {
        (WIDTH, (self.bottom() + GAP + HISTOGRAM + 64.0) as u32)
    }

    fn title(&self) -> String {
        "When a message that always fails is retried".to_owned()
    }

    fn description(&self) -> String {
        let until = match self.rows().last() {
            Some(row) => format!(
                "attempt {} comes after {} at the median",
                row.attempt,
                with_unit(row.since_first_failure.median)
            ),
            None => "there is no second attempt".to_owned(),
        };
        format!(
            "{}, {} messages that fail with {}: for each attempt from the second, the time since the first failure, on a logarithmic axis; {until}.",
            self.label, self.timetable.messages, self.code
        )
    }

    fn draw<B: DrawingBackend<ErrorType: 'static>>(
        &self,
        canvas: &Canvas<'_, B>,
    ) -> Result<(), ChartError> {
        let subtitle = format!(
            "{}: {} messages that fail with {}. Bars go from the 5th to the 95th percentile; dots are medians.",
            self.label,
            grouped(f64::from(self.timetable.messages)),
            self.code
        );
        canvas.text(&self.title(), (32.0, 38.0), Anchor::Start, 18.0, INK)?;
        canvas.text(&subtitle, (32.0, 64.0), Anchor::Start, 12.5, QUIET)?;
        let axis = self.axis();
        let at = |time: u64| {
            let (from, to) = (axis.position(axis.from), axis.position(axis.to));
            LEFT + (RIGHT - LEFT) * (axis.position(time) - from) / (to - from)
        };
        self.draw_grid(canvas, axis)?;
        self.draw_attempts(canvas, at)?;
        self.draw_histogram(canvas, at)
    }
}

impl TimetableChart<'_> {
    fn rows(&self) -> &[Row] {
        &self.timetable.attempts
    }

    fn axis(&self) -> TimeAxis {
        let since = |row: &Row| row.since_first_failure;
        let earliest = self.rows().iter().map(|row| since(row).p5).min();
        let latest = self.rows().iter().map(|row| since(row).latest).max();
        TimeAxis::covering(earliest.unwrap_or_default(), latest.unwrap_or_default())
    }

    #[expect(clippy::cast_precision_loss, reason = "at most some thousand rows")]
    fn row_height(&self) -> f64 {
        TALLEST_ROW.min(TALLEST / self.rows().len().max(1) as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "at most some thousand rows")]
    fn bottom(&self) -> f64 {
        TOP + self.row_height() * self.rows().len().max(1) as f64
    }

    fn draw_grid<B: DrawingBackend<ErrorType: 'static>>(
        &self,
        canvas: &Canvas<'_, B>,
        axis: TimeAxis,
    ) -> Result<(), ChartError> {
        let floor = self.bottom() + GAP + HISTOGRAM;
        let (from, to) = (axis.position(axis.from), axis.position(axis.to));
        for (position, tick) in axis.ticks() {
            let x = LEFT + (RIGHT - LEFT) * (position - from) / (to - from);
            canvas.grid((x, TOP), (x, self.bottom()))?;
            canvas.grid((x, self.bottom() + GAP), (x, floor))?;
            canvas.text(&tick, (x, floor + 15.0), Anchor::Middle, 12.0, QUIET)?;
        }
        canvas.line(&[(LEFT, floor), (RIGHT, floor)], QUIET, 0.75)?;
        let caption = "time since the first failure (logarithmic)";
        let middle = (LEFT.midpoint(RIGHT), floor + 40.0);
        canvas.text(caption, middle, Anchor::Middle, 12.0, QUIET)
    }

    fn draw_attempts<B: DrawingBackend<ErrorType: 'static>>(
        &self,
        canvas: &Canvas<'_, B>,
        at: impl Fn(u64) -> f64,
    ) -> Result<(), ChartError> {
        let numbers = LEFT - 20.0;
        let heads = TOP - 14.0;
        canvas.text("attempt", (numbers, heads), Anchor::End, 12.0, QUIET)?;
        canvas.text("median", (MEDIANS, heads), Anchor::End, 12.0, QUIET)?;
        let height = self.row_height();
        let thick = (height * 0.44).max(0.5);
        let mut written = f64::NEG_INFINITY;
        let mut middle = TOP + height / 2.0;
        for row in self.rows() {
            let since = row.since_first_failure;
            let (from, to) = (at(since.p5), at(since.p95));
            // Without jitter, the bar would have no length.
            let to = to.max(from + 1.5);
            let top = middle - thick / 2.0;
            canvas.rectangle((from, top), (to, top + thick), BLUE, 0.35)?;
            canvas.dot((at(since.median), middle), (thick * 0.45).max(1.0), BLUE)?;
            if middle - written >= 15.0 {
                let number = row.attempt.to_string();
                let median = with_unit(since.median);
                canvas.text(&number, (numbers, middle), Anchor::End, 12.5, INK)?;
                canvas.text(&median, (MEDIANS, middle), Anchor::End, 12.5, INK)?;
                written = middle;
            }
            middle += height;
        }
        if self.rows().is_empty() {
            let nothing = "no message is retried";
            let position = (LEFT.midpoint(RIGHT), middle);
            canvas.text(nothing, position, Anchor::Middle, 12.5, INK)?;
        }
        Ok(())
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts and positions in a chart"
    )]
    fn draw_histogram<B: DrawingBackend<ErrorType: 'static>>(
        &self,
        canvas: &Canvas<'_, B>,
        at: impl Fn(u64) -> f64,
    ) -> Result<(), ChartError> {
        let wide = (RIGHT - LEFT) / BINS as f64;
        let mut counts = [0_u32; BINS];
        for time in self.timetable.times.iter().flatten() {
            let bin = ((at(*time) - LEFT) / wide) as usize;
            if let Some(count) = counts.get_mut(bin.min(BINS - 1)) {
                *count += 1;
            }
        }
        let (top, floor) = (self.bottom() + GAP, self.bottom() + GAP + HISTOGRAM);
        let most = counts.iter().copied().max().unwrap_or_default();
        let heading: (&str, Point) = (
            "retries of all messages, in the period of each bar",
            (LEFT, top - 16.0),
        );
        canvas.text(heading.0, heading.1, Anchor::Start, 12.0, QUIET)?;
        canvas.text("0", (LEFT - 20.0, floor), Anchor::End, 12.0, QUIET)?;
        if most > 0 {
            let text = grouped(f64::from(most));
            canvas.grid((LEFT, top), (RIGHT, top))?;
            canvas.text(&text, (LEFT - 20.0, top), Anchor::End, 12.0, QUIET)?;
        }
        for (bin, count) in counts
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
        {
            let left = LEFT + wide * bin as f64;
            let high = HISTOGRAM * f64::from(count) / f64::from(most);
            let from = (left + 0.5, floor - high);
            canvas.rectangle(from, (left + wide - 0.5, floor), ORANGE, 0.9)?;
        }
        Ok(())
    }
}
