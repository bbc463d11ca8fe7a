//! The share of decisions that may differ.

use std::str::FromStr;

/// A percentage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok());
        match percent {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Self(percent)),
            _ => Err("expected a percentage from 0% to 100%, such as 1% or 0.5%".to_owned()),
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Share {
    /// Whether `part` of `total` is no more than this share.
    #[expect(clippy::cast_precision_loss, reason = "counts of lines of files")]
    pub(super) fn covers(self, part: usize, total: usize) -> bool {
        part as f64 * 100.0 <= self.0 * total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_covers_parts_up_to_it() {
        for (share, part, total, expected) in [
            ("0%", 0, 10, true),
            ("0%", 1, 1_000_000, false),
            ("1%", 10, 1_000, true),
            ("1%", 11, 1_000, false),
            ("0.5 %", 5, 1_000, true),
            ("100%", 7, 7, true),
        ] {
            let found = share.parse::<Share>().unwrap().covers(part, total);
            assert_eq!(found, expected, "{part} of {total}");
        }
        for invalid in ["1", "-1%", "101%", "NaN%", "%"] {
            assert!(invalid.parse::<Share>().is_err(), "{invalid}");
        }
    }
}
