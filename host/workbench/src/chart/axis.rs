//! The marks of an axis, and what is written at them.

use crate::simulate::Rounded;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Where a logarithmic axis of time may have a mark.
const MARKS: [u64; 13] = [
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

/// A logarithmic axis of time that begins and ends at a mark. What comes before its beginning is drawn there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeAxis {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl TimeAxis {
    /// The axis that holds the times from `earliest` to `latest`, at least two marks and at most seven orders of magnitude.
    pub(super) fn holding(earliest: u64, latest: u64) -> Self {
        let above = MARKS.iter().position(|mark| *mark >= latest);
        let last = above.unwrap_or(MARKS.len() - 1).max(1);
        let to = MARKS.get(last).copied().unwrap_or(14 * DAY);
        let from = MARKS
            .iter()
            .rev()
            .find(|mark| **mark <= earliest.max(to / 10_000_000).max(1) && **mark < to)
            .copied()
            .unwrap_or(1);
        Self { from, to }
    }

    /// The logarithm of a time, within the axis.
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    pub(super) fn place(self, time: u64) -> f64 {
        (time.clamp(self.from, self.to) as f64).ln()
    }

    /// Point and text of each mark.
    pub(super) fn marks(self) -> Vec<(f64, String)> {
        MARKS
            .into_iter()
            .filter(|mark| (self.from..=self.to).contains(mark))
            .map(|mark| (self.place(mark), spelled(mark)))
            .collect()
    }
}

/// `10 s`, `6 h`: with a space, as units are written.
pub(super) fn spelled(time: u64) -> String {
    let text = Rounded(time).to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = text.split_at(digits.len());
    let unit = if unit == "m" { "min" } else { unit };
    format!("{digits} {unit}")
}

/// Round numbers from 0 to at least `most`, about five of them.
pub(super) fn round_marks(most: f64) -> Vec<f64> {
    let rough = (most / 5.0).max(1e-9);
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= rough)
        .unwrap_or(magnitude);
    let mut marks = vec![0.0];
    while let Some(last) = marks.last().copied()
        && last < most
    {
        marks.push(last + step);
    }
    marks
}

/// Marks of a logarithmic axis that holds `least` to `most`: 1, 2 and 5 times the powers of ten.
pub(super) fn steep_marks(least: f64, most: f64) -> Vec<f64> {
    let all = (0..12).flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power)));
    let all: Vec<_> = all.collect();
    let first = all.iter().rposition(|mark| *mark <= least).unwrap_or(0);
    let last = all.iter().position(|mark| *mark >= most);
    let last = last.unwrap_or(all.len() - 1).max(first + 1);
    all.get(first..=last).unwrap_or_default().to_vec()
}

/// A whole number with its thousands apart.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
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
    fn an_axis_of_time_begins_and_ends_at_a_mark() {
        for (earliest, latest, from, to) in [
            (500, 40 * MINUTE, 100, HOUR),
            (0, 10 * SECOND, 1, 10 * SECOND),
            (SECOND, SECOND, 100, SECOND),
            (0, 13 * DAY, 100, 14 * DAY),
            (0, 0, 1, 10),
        ] {
            let axis = TimeAxis::holding(earliest, latest);
            assert_eq!(axis, TimeAxis { from, to }, "{earliest} {latest}");
            assert!(axis.marks().len() >= 2);
            assert_eq!(axis.place(0), axis.place(from));
        }
        let marks = TimeAxis::holding(SECOND, DAY).marks();
        let texts: Vec<_> = marks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(
            texts,
            ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]
        );
    }

    #[test]
    fn marks_are_round_numbers_that_reach_the_most() {
        for (most, expected) in [
            (0.0, vec![0.0]),
            (9.0, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
            (14_300.0, vec![0.0, 5_000.0, 10_000.0, 15_000.0]),
        ] {
            assert_eq!(round_marks(most), expected);
        }
        assert_eq!(
            steep_marks(387.0, 1_100.0),
            [200.0, 500.0, 1_000.0, 2_000.0]
        );
        assert_eq!(steep_marks(0.0, 0.0), [1.0, 2.0]);
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
    }
}
