//! A time axis across a plot, and histograms above it.

use plotters::style::RGBColor;

use super::axis::{TimeAxis, grouped};
use super::canvas::{Anchor, Backend, Canvas, Drawn};
use super::style::QUIET;

/// The number of bins, all equally wide on the axis.
const BINS: usize = 76;

/// How many times there are in each bin.
pub(super) type Counts = [u32; BINS];

/// A time axis between the edges of a plot.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeScale {
    pub(super) axis: TimeAxis,
    pub(super) left: f64,
    pub(super) right: f64,
}

/// Where the bars are, and how they look.
pub(super) struct Bars {
    pub(super) colour: RGBColor,
    pub(super) floor: f64,
    /// The height of a bar with the count `most`.
    pub(super) height: f64,
    pub(super) most: u32,
    /// The height of the lowest bars.
    pub(super) least: f64,
    /// The right edge of the numbers.
    pub(super) numbers: f64,
}

impl TimeScale {
    /// Where a time is.
    pub(super) fn at(self, time: u64) -> f64 {
        self.x(self.axis.position(time))
    }

    fn x(self, position: f64) -> f64 {
        let [from, to] = [self.axis.from, self.axis.to].map(|end| self.axis.position(end));
        self.left + (self.right - self.left) * (position - from) / (to - from)
    }

    /// The place and the label of each tick.
    pub(super) fn ticks(self) -> impl Iterator<Item = (f64, String)> {
        let ticks = self.axis.ticks().into_iter();
        ticks.map(move |(position, label)| (self.x(position), label))
    }

    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    fn width(self) -> f64 {
        (self.right - self.left) / BINS as f64
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in a chart"
    )]
    pub(super) fn counts(self, times: impl Iterator<Item = u64>) -> Counts {
        let mut counts = [0; BINS];
        for time in times {
            let bin = ((self.at(time) - self.left) / self.width()) as usize;
            if let Some(count) = counts.get_mut(bin.min(BINS - 1)) {
                *count += 1;
            }
        }
        counts
    }

    /// Draws the bars, and to their left what their heights mean.
    #[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
    pub(super) fn draw<B: Backend>(
        self,
        canvas: &Canvas<'_, B>,
        counts: &Counts,
        bars: &Bars,
    ) -> Drawn {
        let (floor, top) = (bars.floor, bars.floor - bars.height);
        canvas.text("0", (bars.numbers, floor), Anchor::End, 12.0, QUIET)?;
        if bars.most > 0 {
            let text = grouped(f64::from(bars.most));
            canvas.grid((self.left, top), (self.right, top))?;
            canvas.text(&text, (bars.numbers, top), Anchor::End, 12.0, QUIET)?;
        }
        for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let left = self.left + self.width() * bin as f64;
            let high = bars.height * f64::from(*count) / f64::from(bars.most);
            let from = (left + 0.5, floor - high.max(bars.least));
            canvas.rectangle(from, (left + self.width() - 0.5, floor), bars.colour, 0.9)?;
        }
        Ok(())
    }
}
