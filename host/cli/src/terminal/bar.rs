//! Bars for the terminal.

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

#[cfg(test)]
mod tests {
    use super::*;

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
