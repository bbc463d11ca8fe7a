//! Axes: their ticks and labels.

use crate::simulate::Rounded;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The possible ticks of a logarithmic time axis, in milliseconds.
const TICKS: [u64; 13] = [
    1,
    10,
    100,
    SECOND,
    10 * SECOND,
    MINUTE,
    10 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    3 * DAY,
    7 * DAY,
    14 * DAY,
];

/// A logarithmic time axis that starts and ends at a tick. Earlier times are drawn at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeAxis {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl TimeAxis {
    /// The axis for times from `earliest` to `latest`. It has at least two ticks and at most seven orders of magnitude.
    pub(super) fn covering(earliest: u64, latest: u64) -> Self {
        let above = TICKS.iter().position(|tick| *tick >= latest);
        let last = above.unwrap_or(TICKS.len() - 1).max(1);
        let to = TICKS.get(last).copied().unwrap_or(14 * DAY);
        let from = TICKS
            .iter()
            .rev()
            .find(|tick| **tick <= earliest.max(to / 10_000_000).max(1) && **tick < to)
            .copied()
            .unwrap_or(1);
        Self { from, to }
    }

    /// The logarithm of a time, clamped to the axis.
    #[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
    pub(super) fn position(self, time: u64) -> f64 {
        (time.clamp(self.from, self.to) as f64).ln()
    }

    /// The position and label of each tick.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        TICKS
            .into_iter()
            .filter(|tick| (self.from..=self.to).contains(tick))
            .map(|tick| (self.position(tick), with_unit(tick)))
            .collect()
    }
}

/// `10 s`, `6 h`: with a space before the unit.
pub(super) fn with_unit(time: u64) -> String {
    let text = Rounded(time).to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = text.split_at(digits.len());
    let unit = if unit == "m" { "min" } else { unit };
    format!("{digits} {unit}")
}

/// About five round numbers, from 0 to at least `most`.
pub(super) fn linear_ticks(most: f64) -> Vec<f64> {
    let rough = (most / 5.0).max(1e-9);
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= rough)
        .unwrap_or(magnitude);
    let mut ticks = vec![0.0];
    while let Some(last) = ticks.last().copied()
        && last < most
    {
        ticks.push(last + step);
    }
    ticks
}

/// The ticks of a logarithmic axis from `least` to `most`: 1, 2 and 5 times the powers of ten.
pub(super) fn logarithmic_ticks(least: f64, most: f64) -> Vec<f64> {
    let all = (0..12).flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power)));
    let all: Vec<_> = all.collect();
    let first = all.iter().rposition(|tick| *tick <= least).unwrap_or(0);
    let last = all.iter().position(|tick| *tick >= most);
    let last = last.unwrap_or(all.len() - 1).max(first + 1);
    all.get(first..=last).unwrap_or_default().to_vec()
}

/// An integer with commas between the thousands.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_axis_starts_and_ends_at_a_tick() {
        for (earliest, latest, from, to) in [
            (500, 40 * MINUTE, 100, HOUR),
            (0, 10 * SECOND, 1, 10 * SECOND),
            (SECOND, SECOND, 100, SECOND),
            (0, 13 * DAY, 100, 14 * DAY),
            (0, 0, 1, 10),
        ] {
            let axis = TimeAxis::covering(earliest, latest);
            assert_eq!(axis, TimeAxis { from, to }, "{earliest} {latest}");
            assert!(axis.ticks().len() >= 2);
            assert_eq!(axis.position(0), axis.position(from));
        }
        let ticks = TimeAxis::covering(SECOND, DAY).ticks();
        let texts: Vec<_> = ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(
            texts,
            ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]
        );
    }

    #[test]
    fn ticks_are_round_numbers_up_to_the_maximum() {
        for (most, expected) in [
            (0.0, vec![0.0]),
            (9.0, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
            (14_300.0, vec![0.0, 5_000.0, 10_000.0, 15_000.0]),
        ] {
            assert_eq!(linear_ticks(most), expected);
        }
        assert_eq!(
            logarithmic_ticks(387.0, 1_100.0),
            [200.0, 500.0, 1_000.0, 2_000.0]
        );
        assert_eq!(logarithmic_ticks(0.0, 0.0), [1.0, 2.0]);
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
    }
}
