//! Numbers for people: counts, percentages, rates and sizes.

use std::fmt;
use std::time::Duration;

use indicatif::HumanCount;

/// A count with separated thousands: `4,801`.
pub(crate) fn count(number: impl TryInto<u64>) -> String {
    HumanCount(number.try_into().unwrap_or(u64::MAX)).to_string()
}

/// A count of things: `1 letter`, `2,000 letters`.
pub(crate) fn counted(number: impl TryInto<u64>, thing: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        number => format!("{} {thing}s", count(number)),
    }
}

/// How many in a second.
pub(crate) fn rate(count: u64, time: Duration) -> u64 {
    let milliseconds = time.as_millis().max(1);
    u64::try_from(u128::from(count) * 1_000 / milliseconds).unwrap_or(u64::MAX)
}

/// A part in percent: `13.8 %`. A part above zero is never shown as `0.0 %`.
#[expect(clippy::cast_precision_loss, reason = "counts of lines of files")]
pub(crate) fn percent(part: usize, total: usize) -> String {
    let percent = 100.0 * part as f64 / total.max(1) as f64;
    match percent {
        percent if part > 0 && percent < 0.1 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// A number of bytes, shown in KiB: whole where that is exact, otherwise with one decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 % 1_024 {
            0 => format!("{} KiB", self.0 / 1_024),
            #[expect(clippy::cast_precision_loss, reason = "a size for people")]
            _ => format!("{:.1} KiB", self.0 as f64 / 1_024.0),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_whole_and_one_message_is_one() {
        assert_eq!(rate(9_603, Duration::from_millis(2_000)), 4_801);
        assert_eq!(rate(1, Duration::ZERO), 1_000);
        let shown = [0_u64, 1, 2_000].map(|number| counted(number, "message"));
        assert_eq!(shown, ["0 messages", "1 message", "2,000 messages"]);
    }

    #[test]
    fn a_small_share_is_not_shown_as_none() {
        for (part, total, expected) in [
            (0, 0, "0.0 %"),
            (1, 1_000_000, "<0.1 %"),
            (138, 1_000, "13.8 %"),
            (7, 7, "100.0 %"),
        ] {
            assert_eq!(percent(part, total), expected);
        }
    }

    #[test]
    fn a_size_is_shown_in_kib() {
        for (bytes, expected) in [
            (0, "0 KiB"),
            (100, "0.1 KiB"),
            (1_024, "1 KiB"),
            (1_536, "1.5 KiB"),
            (64 << 20, "65536 KiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), expected);
        }
        assert_eq!(format!("{:>8}", Size(1_024)), "   1 KiB");
    }
}
