//! How long policies wait: the delays of two of them over the same logarithmic axis, one above the other.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::axis::{TimeAxis, grouped, spelled};
use super::canvas::{Canvas, Stands};
use super::error::ChartError;
use super::render::Chart;
use super::style::{BLUE, INK, ORANGE, QUIET};
use crate::replay::Delays;

const WIDTH: u32 = 820;
const HEIGHT: u32 = 484;
const LEFT: f64 = 104.0;
const RIGHT: f64 = 772.0;

/// Where the plot of each policy ends, and how tall it is.
const FLOORS: [f64; 2] = [238.0, 420.0];
const TALL: f64 = 104.0;

/// Delays are counted in so many spans of the axis, all as wide.
const SPANS: usize = 76;

/// The delays of two policies.
#[derive(Debug)]
pub struct DelaysChart<'a> {
    /// What there is to know besides, in a line.
    pub about: &'a str,
    /// Each policy's delays, and what it is called.
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
                spelled(delays.median.into()),
                spelled(delays.longest.into())
            ),
        });
        let [old, new] = sides;
        format!("{} Above {old}. Below {new}.", self.about)
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Result<(), ChartError>
    where
        B::ErrorType: 'static,
    {
        canvas.text(&self.title(), (32.0, 38.0), Stands::After, 18.0, INK)?;
        canvas.text(self.about, (32.0, 64.0), Stands::After, 12.5, QUIET)?;
        let axis = self.axis();
        let (from, to) = (axis.place(axis.from), axis.place(axis.to));
        let at = |time: u32| LEFT + (RIGHT - LEFT) * (axis.place(time.into()) - from) / (to - from);
        for (place, mark) in axis.marks() {
            let x = LEFT + (RIGHT - LEFT) * (place - from) / (to - from);
            for floor in FLOORS {
                canvas.grid((x, floor - TALL), (x, floor))?;
            }
            let place = (x, FLOORS[1] + 15.0);
            canvas.text(&mark, place, Stands::Around, 12.0, QUIET)?;
        }
        let caption = "delay before the next attempt (logarithmic)";
        let middle = (LEFT.midpoint(RIGHT), FLOORS[1] + 40.0);
        canvas.text(caption, middle, Stands::Around, 12.0, QUIET)?;
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
    /// From the shortest of the delays to the longest, or nearly: one in a hundred may be drawn at the beginning.
    fn axis(&self) -> TimeAxis {
        let sides = || self.sides.iter().map(|(_, delays)| &delays.times);
        let short = |times: &Vec<u32>| times.get(times.len() / 100).copied();
        let earliest = sides().filter_map(short).min();
        let latest = sides().filter_map(|times| times.last().copied()).max();
        let [earliest, latest] = [earliest, latest].map(|time| time.unwrap_or_default().into());
        TimeAxis::holding(earliest, latest)
    }
}

/// How many delays are drawn in each span of the axis.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a picture"
)]
fn counts(delays: &Delays, at: impl Fn(u32) -> f64) -> [u32; SPANS] {
    let wide = (RIGHT - LEFT) / SPANS as f64;
    let mut counts = [0; SPANS];
    for time in &delays.times {
        let span = ((at(*time) - LEFT) / wide) as usize;
        if let Some(count) = counts.get_mut(span.min(SPANS - 1)) {
            *count += 1;
        }
    }
    counts
}

/// The delays of one policy, in a plot that ends at a floor. Both have the same height for the same number.
#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn draw_side<B: DrawingBackend>(
    canvas: &Canvas<'_, B>,
    ((label, delays), counts): ((&str, &Delays), &[u32; SPANS]),
    most: u32,
    (floor, colour): (f64, RGBColor),
    at: impl Fn(u32) -> f64,
) -> Result<(), ChartError>
where
    B::ErrorType: 'static,
{
    let top = floor - TALL;
    let numbers = LEFT - 12.0;
    canvas.rectangle((LEFT, top - 41.0), (LEFT + 11.0, top - 30.0), colour, 0.9)?;
    let place = (LEFT + 18.0, top - 35.5);
    canvas.text(label, place, Stands::After, 12.5, INK)?;
    let told = match delays.records {
        0 => "no delay".to_owned(),
        records => format!("{} delays", grouped(records as f64)),
    };
    canvas.text(&told, (RIGHT, top - 35.5), Stands::Before, 12.5, QUIET)?;
    canvas.text("0", (numbers, floor), Stands::Before, 12.0, QUIET)?;
    if most > 0 {
        let text = grouped(f64::from(most));
        canvas.grid((LEFT, top), (RIGHT, top))?;
        canvas.text(&text, (numbers, top), Stands::Before, 12.0, QUIET)?;
    }
    let wide = (RIGHT - LEFT) / SPANS as f64;
    for (span, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let left = LEFT + wide * span as f64;
        let high = (TALL * f64::from(*count) / f64::from(most)).max(0.75);
        let from = (left + 0.5, floor - high);
        canvas.rectangle(from, (left + wide - 0.5, floor), colour, 0.9)?;
    }
    canvas.line(&[(LEFT, floor), (RIGHT, floor)], QUIET, 0.75)?;
    if delays.records > 0 {
        // Where half of the delays are shorter, across the bars.
        let x = at(delays.median);
        canvas.line(&[(x, top - 4.0), (x, floor)], INK, 1.0)?;
        let median = format!("median {}", spelled(delays.median.into()));
        let (place, stands) = match x {
            x if x < LEFT + 40.0 => (LEFT, Stands::After),
            x if x > RIGHT - 40.0 => (RIGHT, Stands::Before),
            x => (x, Stands::Around),
        };
        canvas.text(&median, (place, top - 13.0), stands, 12.0, INK)?;
    }
    Ok(())
}
