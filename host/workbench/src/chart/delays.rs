//! The chart of a replay: histograms of the delays of two policies, one above the other, on the same logarithmic axis.

use super::axis::{TimeAxis, grouped, with_unit};
use super::canvas::{Anchor, Backend, Canvas, Drawn};
use super::histogram::{Bars, Counts, TimeScale};
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

    fn subtitle(&self) -> String {
        self.about.to_owned()
    }

    fn draw<B: Backend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        let scale = TimeScale {
            axis: self.axis(),
            left: LEFT,
            right: RIGHT,
        };
        for (x, tick) in scale.ticks() {
            for floor in FLOORS {
                canvas.grid((x, floor - PLOT_HEIGHT), (x, floor))?;
            }
            let position = (x, FLOORS[1] + 15.0);
            canvas.text(&tick, position, Anchor::Middle, 12.0, QUIET)?;
        }
        let caption = "delay before the next attempt (logarithmic)";
        let middle = (LEFT.midpoint(RIGHT), FLOORS[1] + 40.0);
        canvas.text(caption, middle, Anchor::Middle, 12.0, QUIET)?;
        let counts = self.sides.map(|(_, delays)| {
            let times = delays.times.iter().copied();
            scale.counts(times.map(u64::from))
        });
        let most = counts.iter().flatten().copied().max().unwrap_or_default();
        let sides = self.sides.into_iter().zip(&counts);
        for ((side, floor), colour) in sides.zip(FLOORS).zip([BLUE, ORANGE]) {
            let bars = Bars {
                colour,
                floor,
                height: PLOT_HEIGHT,
                most,
                least: 0.75,
                numbers: LEFT - 12.0,
            };
            draw_side(canvas, scale, side, &bars)?;
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

/// Draws the delays of one policy. Both plots have the same scale.
#[expect(clippy::cast_precision_loss, reason = "a number in a chart")]
fn draw_side<B: Backend>(
    canvas: &Canvas<'_, B>,
    scale: TimeScale,
    ((label, delays), counts): ((&str, &Delays), &Counts),
    bars: &Bars,
) -> Drawn {
    let (floor, top) = (bars.floor, bars.floor - PLOT_HEIGHT);
    let corners = ((LEFT, top - 41.0), (LEFT + 11.0, top - 30.0));
    canvas.rectangle(corners.0, corners.1, bars.colour, 0.9)?;
    let position = (LEFT + 18.0, top - 35.5);
    canvas.text(label, position, Anchor::Start, 12.5, INK)?;
    let total = match delays.records {
        0 => "no delay".to_owned(),
        records => format!("{} delays", grouped(records as f64)),
    };
    canvas.text(&total, (RIGHT, top - 35.5), Anchor::End, 12.5, QUIET)?;
    scale.draw(canvas, counts, bars)?;
    canvas.line(&[(LEFT, floor), (RIGHT, floor)], QUIET, 0.75)?;
    if delays.records > 0 {
        // The median, as a line across the bars.
        let x = scale.at(delays.median.into());
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
