//! A duration for people: two digits and a unit.

use std::fmt;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Milliseconds, shown with two significant digits: `850ms`, `1.5s`, `42s`, `7.1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounded(pub u64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each range ends where rounding would give 1.0 of the next unit.
        let (unit, name) = match self.0 {
            0 => return f.pad("0s"),
            1..1_000 => (1, "ms"),
            SECOND..59_500 => (SECOND, "s"),
            59_500..3_570_000 => (MINUTE, "m"),
            3_570_000..84_600_000 => (HOUR, "h"),
            _ => (DAY, "d"),
        };
        let tenths = (self.0 * 10 + unit / 2) / unit;
        if tenths < 100 && !tenths.is_multiple_of(10) {
            f.pad(&format!("{}.{}{name}", tenths / 10, tenths % 10))
        } else {
            f.pad(&format!("{}{name}", (self.0 + unit / 2) / unit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_to_two_digits_and_a_unit() {
        for (milliseconds, expected) in [
            (0, "0s"),
            (7, "7ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_449, "1.4s"),
            (9_960, "10s"),
            (59_499, "59s"),
            (59_500, "1m"),
            (90_000, "1.5m"),
            (3_569_999, "59m"),
            (3_570_000, "1h"),
            (7 * HOUR + 6 * MINUTE, "7.1h"),
            (23 * HOUR, "23h"),
            (DAY - 1, "1d"),
            (14 * DAY, "14d"),
        ] {
            assert_eq!(Rounded(milliseconds).to_string(), expected);
        }
        assert_eq!(format!("{:>6}", Rounded(1_500)), "  1.5s");
    }
}
