//! The chart of a timetable: a bar for each attempt on a logarithmic time axis, and below it a histogram of all retries.

use super::axis::{TimeAxis, grouped, with_unit};
use super::canvas::{Anchor, Backend, Canvas, Drawn};
use super::histogram::{Bars, TimeScale};
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

    fn subtitle(&self) -> String {
        format!(
            "{}: {} messages that fail with {}. Bars go from the 5th to the 95th percentile; dots are medians.",
            self.label,
            grouped(f64::from(self.timetable.messages)),
            self.code
        )
    }

    fn draw<B: Backend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        let scale = TimeScale {
            axis: self.axis(),
            left: LEFT,
            right: RIGHT,
        };
        self.draw_grid(canvas, scale)?;
        self.draw_attempts(canvas, scale)?;
        self.draw_histogram(canvas, scale)
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

    fn draw_grid<B: Backend>(&self, canvas: &Canvas<'_, B>, scale: TimeScale) -> Drawn {
        let floor = self.bottom() + GAP + HISTOGRAM;
        for (x, tick) in scale.ticks() {
            canvas.grid((x, TOP), (x, self.bottom()))?;
            canvas.grid((x, self.bottom() + GAP), (x, floor))?;
            canvas.text(&tick, (x, floor + 15.0), Anchor::Middle, 12.0, QUIET)?;
        }
        canvas.line(&[(LEFT, floor), (RIGHT, floor)], QUIET, 0.75)?;
        let caption = "time since the first failure (logarithmic)";
        let middle = (LEFT.midpoint(RIGHT), floor + 40.0);
        canvas.text(caption, middle, Anchor::Middle, 12.0, QUIET)
    }

    fn draw_attempts<B: Backend>(&self, canvas: &Canvas<'_, B>, scale: TimeScale) -> Drawn {
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
            let (from, to) = (scale.at(since.p5), scale.at(since.p95));
            // Without jitter, the bar would have no length.
            let to = to.max(from + 1.5);
            let top = middle - thick / 2.0;
            canvas.rectangle((from, top), (to, top + thick), BLUE, 0.35)?;
            let median = (scale.at(since.median), middle);
            canvas.dot(median, (thick * 0.45).max(1.0), BLUE)?;
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

    fn draw_histogram<B: Backend>(&self, canvas: &Canvas<'_, B>, scale: TimeScale) -> Drawn {
        let counts = scale.counts(self.timetable.times.iter().flatten().copied());
        let top = self.bottom() + GAP;
        let heading = "retries of all messages, in the period of each bar";
        canvas.text(heading, (LEFT, top - 16.0), Anchor::Start, 12.0, QUIET)?;
        let bars = Bars {
            colour: ORANGE,
            floor: top + HISTOGRAM,
            height: HISTOGRAM,
            most: counts.iter().copied().max().unwrap_or_default(),
            least: 0.0,
            numbers: LEFT - 20.0,
        };
        scale.draw(canvas, &counts, &bars)
    }
}
