//! Counts and percentages, for people.

use indicatif::HumanCount;

/// A count with separated thousands.
pub(super) fn count(number: usize) -> HumanCount {
    HumanCount(number as u64)
}

/// A part in percent: `13.8 %`. A part above zero is never shown as `0.0 %`.
#[expect(clippy::cast_precision_loss, reason = "counts of lines of files")]
pub(super) fn percent(part: usize, total: usize) -> String {
    let percent = 100.0 * part as f64 / total.max(1) as f64;
    match percent {
        percent if part > 0 && percent < 0.1 => "<0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
