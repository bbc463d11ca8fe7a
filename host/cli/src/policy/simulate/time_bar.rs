//! Bars over a logarithmic time axis, for the terminal.

use backstop_workbench::simulate::timetable::Row;
use backstop_workbench::simulate::{Percentiles, Rounded};

/// The width of the axis, in characters, where there is room.
const WIDTH: usize = 36;

/// The least width: a shorter axis says nothing.
const LEAST_WIDTH: usize = 16;

/// A logarithmic time axis. Earlier times are drawn at its start.
pub(super) struct TimeBar {
    from: f64,
    to: f64,
    width: usize,
}

impl TimeBar {
    /// An axis for these attempts that takes no more than this room, if it is limited. `None` if there is too little.
    pub(super) fn of(attempts: &[Row], room: Option<usize>) -> Option<Self> {
        let width = room.unwrap_or(WIDTH).min(WIDTH);
        if width < LEAST_WIDTH {
            return None;
        }
        let since = |row: &Row| row.since_first_failure;
        let from = attempts.iter().map(|row| since(row).p5).min();
        let to = attempts.iter().map(|row| since(row).p95).max();
        let (from, to) = (log(from.unwrap_or_default()), log(to.unwrap_or_default()));
        Some(Self {
            from,
            to: to.max(from + 1.0),
            width,
        })
    }

    /// The longer of two notes that fits.
    pub(super) fn note(&self, long: &str, short: &str) -> String {
        let fits = long.chars().count() <= self.width;
        if fits { long } else { short }.to_owned()
    }

    /// The start and the end of the axis.
    pub(super) fn header(&self) -> String {
        let [from, to] = [self.from, self.to].map(|end| Rounded(millis(end)).to_string());
        let gap = self
            .width
            .saturating_sub(from.chars().count() + to.chars().count());
        format!("{from}{}{to}", " ".repeat(gap))
    }

    /// A bar from the 5th to the 95th percentile, with a dot at the median.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a position among a few characters"
    )]
    pub(super) fn draw(&self, of: Percentiles) -> String {
        let at = |time: u64| {
            let part = (log(time) - self.from) / (self.to - self.from);
            (part.clamp(0.0, 1.0) * (self.width - 1) as f64).round() as usize
        };
        let (from, median, to) = (at(of.p5), at(of.median), at(of.p95));
        (0..=to)
            .map(|column| match column {
                _ if column == median => '●',
                _ if column >= from => '━',
                _ => ' ',
            })
            .collect()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a position among a few characters"
)]
fn log(time: u64) -> f64 {
    (time.max(1) as f64).ln()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the exponential of a logarithm of milliseconds"
)]
fn millis(log: f64) -> u64 {
    log.exp().round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_reaches_from_the_5th_to_the_95th_percentile_with_the_median_in_it() {
        let axis = TimeBar {
            from: 1_f64.ln(),
            to: 100_000_f64.ln(),
            width: WIDTH,
        };
        let of = |p5, median, p95| {
            axis.draw(Percentiles {
                earliest: 0,
                p5,
                median,
                p95,
                latest: u64::MAX,
            })
        };
        assert_eq!(of(0, 1, 10), "●━━━━━━━");
        assert_eq!(of(10, 100, 1_000), "       ━━━━━━━●━━━━━━━");
        assert_eq!(of(100_000, 100_000, u64::MAX).chars().count(), WIDTH);
        assert_eq!(axis.header().chars().count(), WIDTH);
    }
}
