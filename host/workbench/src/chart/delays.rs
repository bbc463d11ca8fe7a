//! The chart of a replay: histograms of the delays of two policies, one above the other, on the same logarithmic axis.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::axis::{TimeAxis, grouped, with_unit};
use super::canvas::{Anchor, Canvas};
use super::error::ChartError;
use super::render::Chart;
use super::style::{BLUE, INK, ORANGE, QUIET};
use crate::replay::Delays;

const WIDTH: u32 = 820;
const HEIGHT: u32 = 484;
const LEFT: f64 = 104.0;
const RIGHT: f64 = 772.0;

/// The lower edge of each policy's plot, and the height of a plot.
const FLOORS: [f64; 2] = [238.0, 420.0];
const PLOT_HEIGHT: f64 = 104.0;

/// The number of bins, all equally wide on the axis.
const BINS: usize = 76;

/// The delays of two policies.
#[derive(Debug)]
pub struct DelaysChart<'a> {
    /// The line below the title.
    pub about: &'a str,
    /// The label and delays of each policy.
    pub sides: [(&'a str, &'a Delays); 2],
}

impl Chart for DelaysChart<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH, HEIGHT)
    }

    fn title(&self) -> String {
        "How long retries are delayed, before and now".to_owned()
    }

    fn description(&self) -> String {
        let sides = self.sides.map(|(label, delays)| match delays.records {
            0 => format!("{label}, no delay"),
            records => format!(
                "{label}, {records} delays, {} at the median, {} at the most",
                with_unit(delays.median.into()),
                with_unit(delays.longest.into())
            ),
        });
        let [old, new] = sides;
        format!("{} Above {old}. Below {new}.", self.about)
    }

    fn draw<B: DrawingBackend<ErrorType: 'static>>(
        &self,
        canvas: &Canvas<'_, B>,
    ) -> Result<(), ChartError> {
        canvas.text(&self.title(), (32.0, 38.0), Anchor::Start, 18.0, INK)?;
        canvas.text(self.about, (32.0, 64.0), Anchor::Start, 12.5, QUIET)?;
        let axis = self.axis();
        let (from, to) = (axis.position(axis.from), axis.position(axis.to));
        let at =
            |time: u32| LEFT + (RIGHT - LEFT) * (axis.position(time.into()) - from) / (to - from);
        for (position, tick) in axis.ticks() {
            let x = LEFT + (RIGHT - LEFT) * (position - from) / (to - from);
            for floor in FLOORS {
                canvas.grid((x, floor - PLOT_HEIGHT), (x, floor))?;
            }
            let position = (x, FLOORS[1] + 15.0);
            canvas.text(&tick, position, Anchor::Middle, 12.0, QUIET)?;
        }
        let caption = "delay before the next attempt (logarithmic)";
        let middle = (LEFT.midpoint(RIGHT), FLOORS[1] + 40.0);
        canvas.text(caption, middle, Anchor::Middle, 12.0, QUIET)?;
        let counts = self.sides.map(|(_, delays)| counts(delays, at));
        let most = counts.iter().flatten().copied().max().unwrap_or_default();
        let sides = self.sides.into_iter().zip(&counts);
        for ((side, floor), colour) in sides.zip(FLOORS).zip([BLUE, ORANGE]) {
            draw_side(canvas, side, most, (floor, colour), at)?;
        }
        Ok(())
    }
}

impl DelaysChart<'_> {
    /// From the 1st percentile of the delays to the longest. Shorter ones are drawn at the start.
    fn axis(&self) -> TimeAxis {
        let sides = || self.sides.iter().map(|(_, delays)| &delays.times);
        let short = |times: &Vec<u32>| times.get(times.len() / 100).copied();
        let earliest = sides().filter_map(short).min();
        let latest = sides().filter_map(|times| times.last().copied()).max();
        let [earliest, latest] = [earliest, latest].map(|time| time.unwrap_or_default().into());
        TimeAxis::covering(earliest, latest)
    }
}

/// The number of delays in each bin.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a chart"
)]
fn counts(delays: &Delays, at: impl Fn(u32) -> f64) -> [u32; BINS] {
    let wide = (RIGHT - LEFT) / BINS as f64;
    let mut counts = [0; BINS];
    for time in &delays.times {
        let bin = ((at(*time) - LEFT) / wide) as usize;
        if let Some(count) = counts.get_mut(bin.min(BINS - 1)) {
            *count += 1;
        }
    }
    counts
}

/// Draws the delays of one policy above `floor`. Both plots have the same scale.
#[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
fn draw_side<B: DrawingBackend<ErrorType: 'static>>(
    canvas: &Canvas<'_, B>,
    ((label, delays), counts): ((&str, &Delays), &[u32; BINS]),
    most: u32,
    (floor, colour): (f64, RGBColor),
    at: impl Fn(u32) -> f64,
) -> Result<(), ChartError> {
    let top = floor - PLOT_HEIGHT;
    let labels = LEFT - 12.0;
    canvas.rectangle((LEFT, top - 41.0), (LEFT + 11.0, top - 30.0), colour, 0.9)?;
    let position = (LEFT + 18.0, top - 35.5);
    canvas.text(label, position, Anchor::Start, 12.5, INK)?;
    let total = match delays.records {
        0 => "no delay".to_owned(),
        records => format!("{} delays", grouped(records as f64)),
    };
    canvas.text(&total, (RIGHT, top - 35.5), Anchor::End, 12.5, QUIET)?;
    canvas.text("0", (labels, floor), Anchor::End, 12.0, QUIET)?;
    if most > 0 {
        let text = grouped(f64::from(most));
        canvas.grid((LEFT, top), (RIGHT, top))?;
        canvas.text(&text, (labels, top), Anchor::End, 12.0, QUIET)?;
    }
    let wide = (RIGHT - LEFT) / BINS as f64;
    for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let left = LEFT + wide * bin as f64;
        let high = (PLOT_HEIGHT * f64::from(*count) / f64::from(most)).max(0.75);
        let from = (left + 0.5, floor - high);
        canvas.rectangle(from, (left + wide - 0.5, floor), colour, 0.9)?;
    }
    canvas.line(&[(LEFT, floor), (RIGHT, floor)], QUIET, 0.75)?;
    if delays.records > 0 {
        // The median, as a line across the bars.
        let x = at(delays.median);
        canvas.line(&[(x, top - 4.0), (x, floor)], INK, 1.0)?;
        let median = format!("median {}", with_unit(delays.median.into()));
        let (position, anchor) = match x {
            x if x < LEFT + 40.0 => (LEFT, Anchor::Start),
            x if x > RIGHT - 40.0 => (RIGHT, Anchor::End),
            x => (x, Anchor::Middle),
        };
        canvas.text(&median, (position, top - 13.0), anchor, 12.0, INK)?;
    }
    Ok(())
}
