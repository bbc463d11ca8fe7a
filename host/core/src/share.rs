//! A share of a number, in percent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A share, such as `5%`.
///
/// ```
/// use backstop_core::share::Share;
///
/// let share: Share = "5%".parse()?;
/// assert!(share.is_exceeded(1, 10));
/// assert!(!share.is_exceeded(5, 100));
/// assert!(!share.is_exceeded(0, 0));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Whether `part` of `whole` is more than this share.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of lines and letters, far below 2^52"
    )]
    pub fn is_exceeded(self, part: u64, whole: u64) -> bool {
        part as f64 * 100.0 > self.0 * whole as f64
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').map(str::trim);
        let percent = number.and_then(|it| it.parse::<f64>().ok());
        percent
            .filter(|it| (0.0..=100.0).contains(it))
            .map(Self)
            .ok_or_else(|| "expected a percentage from 0% to 100%, such as 1% or 0.5%".to_owned())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exceeded_by_more_than_itself() {
        for (share, part, whole, expected) in [
            ("0%", 0, 10, false),
            ("0%", 1, 1_000_000, true),
            ("1%", 10, 1_000, false),
            ("1%", 11, 1_000, true),
            ("0.5 %", 5, 1_000, false),
            ("2.5%", 1, 40, false),
            ("2.5%", 2, 40, true),
            ("100%", 7, 7, false),
        ] {
            let found = share.parse::<Share>().unwrap().is_exceeded(part, whole);
            assert_eq!(found, expected, "{part} of {whole}");
        }
        for invalid in ["1", "-1%", "101%", "NaN%", "%"] {
            let error = invalid.parse::<Share>().unwrap_err();
            assert!(error.starts_with("expected a percentage"), "{invalid}");
        }
    }
}
