//! Durations as text: `500ms`, `1s`, `15m`, `12h`, `7d`, `1h30m`. Policy settings, the host's configuration and its flags use this format.

use std::fmt::{self, Write};

/// A duration in whole milliseconds, up to 49 days: the unit of the contract in `wit/policy.wit`.
pub type Milliseconds = u32;

/// Units from the longest to the shortest, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The text is not a duration of at most [`u64::MAX`] milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseDurationError;

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a duration such as `500ms`, `30s`, `15m`, `12h`, `7d` or `1h30m`")
    }
}

impl std::error::Error for ParseDurationError {}

/// Parses a duration: the sum of whole numbers with units (`ms`, `s`, `m`, `h`, `d`), in milliseconds.
///
/// ```
/// assert_eq!(backstop_backoff::parse_duration("1h30m"), Ok(5_400_000));
/// assert!(backstop_backoff::parse_duration("90").is_err(), "a bare number has no unit");
/// ```
pub fn parse_duration(text: &str) -> Result<u64, ParseDurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(ParseDurationError);
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, tail) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, tail) = split_where(tail, |c| c.is_ascii_digit());
        let number: u64 = number.parse().map_err(|_| ParseDurationError)?;
        let (_, length) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or(ParseDurationError)?;
        total = number
            .checked_mul(*length)
            .and_then(|milliseconds| total.checked_add(milliseconds))
            .ok_or(ParseDurationError)?;
        rest = tail;
    }
    Ok(total)
}

// That of the feature is at the end: the lines of a panic are part of the built-in policies.
#[cfg(not(feature = "small"))]
fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// The shortest text that [`parse_duration`] parses as the same duration; `0s` for zero.
///
/// ```
/// assert_eq!(backstop_backoff::format_duration(5_400_000), "1h30m");
/// ```
pub fn format_duration(milliseconds: u64) -> String {
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    let mut rest = milliseconds;
    for (unit, length) in UNITS {
        if rest >= length {
            let _ = write!(text, "{}{unit}", rest / length);
            rest %= length;
        }
    }
    text
}

#[cfg(feature = "small")]
fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    let at = text.find(ends).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("1s", Some(1_000)),
            ("15m", Some(900_000)),
            ("12h", Some(43_200_000)),
            ("7d", Some(604_800_000)),
            ("1h30m", Some(5_400_000)),
            (" 2s ", Some(2_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("1 s", None),
            ("1w", None),
            ("1S", None),
            ("5s5", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ] {
            assert_eq!(parse_duration(text).ok(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_duration_parses_as_the_same(milliseconds in 0..=u64::MAX) {
            prop_assert_eq!(parse_duration(&format_duration(milliseconds)), Ok(milliseconds));
        }
    }
}
