//! Bars and rates for the terminal.

use std::time::Duration;

use indicatif::HumanCount;

/// Partial blocks, in eighths of a character.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar whose length is proportional to `count`: `width` characters for `most`. Any count above zero is visible.
pub(crate) fn bar(count: u64, most: u64, width: usize) -> String {
    let eighths = u128::from(count) * width as u128 * 8;
    let eighths = eighths.div_ceil(most.max(1).into());
    let eighths = usize::try_from(eighths).unwrap_or(width * 8);
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + rest
}

/// How many in a second.
pub(crate) fn rate(count: u64, time: Duration) -> u64 {
    let milliseconds = time.as_millis().max(1);
    u64::try_from(u128::from(count) * 1_000 / milliseconds).unwrap_or(u64::MAX)
}

/// `1 message`, `2,000 messages`.
pub(crate) fn messages(number: u64) -> String {
    match number {
        1 => "1 message".to_owned(),
        _ => format!("{} messages", HumanCount(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_whole_and_one_message_is_one() {
        assert_eq!(rate(9_603, Duration::from_millis(2_000)), 4_801);
        assert_eq!(rate(1, Duration::ZERO), 1_000);
        assert_eq!([messages(0), messages(1)], ["0 messages", "1 message"]);
    }

    #[test]
    fn a_bar_is_as_long_as_its_number_is_large() {
        const BAR: usize = 28;
        for (count, most, expected) in [
            (0, 0, String::new()),
            (0, 9, String::new()),
            (1, 1_000_000, "▏".to_owned()),
            (1, BAR as u64, "█".to_owned()),
            (BAR as u64 / 2, BAR as u64, "█".repeat(BAR / 2)),
            (7, 7, "█".repeat(BAR)),
            (u64::MAX, u64::MAX, "█".repeat(BAR)),
        ] {
            assert_eq!(bar(count, most, BAR), expected);
        }
    }
}
