//! A row's picture in the terminal: a bar over a logarithmic axis of time.

use backstop_workbench::simulate::timetable::Row;
use backstop_workbench::simulate::{Percentiles, Rounded};

/// Its width, in characters.
const LANE: usize = 36;

/// A logarithmic axis of time, in characters. What comes before its beginning is drawn there.
pub(super) struct Lane {
    from: f64,
    to: f64,
}

impl Lane {
    pub(super) fn of(attempts: &[Row]) -> Self {
        let since = |row: &Row| row.since_first_failure;
        let from = attempts.iter().map(|row| since(row).p5).min();
        let to = attempts.iter().map(|row| since(row).p95).max();
        let (from, to) = (log(from.unwrap_or_default()), log(to.unwrap_or_default()));
        Self {
            from,
            to: to.max(from + 1.0),
        }
    }

    /// From when to when it goes, in the second line of a head.
    pub(super) fn head(&self) -> String {
        let [from, to] = [self.from, self.to].map(|end| Rounded(millis(end)).to_string());
        let room = LANE.saturating_sub(from.chars().count() + to.chars().count());
        format!("\n{from}{}{to}", " ".repeat(room))
    }

    /// Nine in ten of the values as a bar, with the median in it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place among a few characters"
    )]
    pub(super) fn drawn(&self, of: Percentiles) -> String {
        let at = |span: u64| {
            let part = (log(span) - self.from) / (self.to - self.from);
            (part.clamp(0.0, 1.0) * (LANE - 1) as f64).round() as usize
        };
        let (from, median, to) = (at(of.p5), at(of.median), at(of.p95));
        (0..=to)
            .map(|place| match place {
                _ if place == median => '●',
                _ if place >= from => '━',
                _ => ' ',
            })
            .collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place among a few characters")]
fn log(span: u64) -> f64 {
    (span.max(1) as f64).ln()
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
        let lane = Lane {
            from: 1_f64.ln(),
            to: 100_000_f64.ln(),
        };
        let of = |p5, median, p95| {
            lane.drawn(Percentiles {
                earliest: 0,
                p5,
                median,
                p95,
                latest: u64::MAX,
            })
        };
        assert_eq!(of(0, 1, 10), "●━━━━━━━");
        assert_eq!(of(10, 100, 1_000), "       ━━━━━━━●━━━━━━━");
        assert_eq!(of(100_000, 100_000, u64::MAX).chars().count(), LANE);
        assert_eq!(lane.head().trim_start_matches('\n').chars().count(), LANE);
    }
}
