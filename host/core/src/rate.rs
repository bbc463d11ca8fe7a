//! How many messages fail, or come back, in a second, a minute or an hour.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::failure::Milliseconds;

/// The most messages of a rate: more than any queue delivers.
const MOST: u64 = 1_000_000_000;

/// The units, with their length in milliseconds.
const UNITS: [(&str, u64); 3] = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// A number of messages in a unit of time: `200/s`, `50/m` or `10/h`.
///
/// ```
/// use backstop_core::failure::Milliseconds;
/// use backstop_core::rate::Rate;
///
/// let rate: Rate = "50/s".parse()?;
/// assert_eq!(rate.time_of(5_000), Milliseconds(100_000));
/// # Ok::<(), backstop_core::rate::InvalidRate>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    messages: u64,
    unit: &'static str,
    /// The length of the unit, in milliseconds.
    per: u64,
}

/// A text that is no [`Rate`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a whole number of messages from 1 to {MOST}, and a unit, such as 200/s, 50/m or 10/h"
)]
pub struct InvalidRate;

impl Rate {
    /// The time from one message to the next.
    pub fn interval(self) -> Duration {
        let nanoseconds = self.per.saturating_mul(1_000_000) / self.messages.max(1);
        Duration::from_nanos(nanoseconds)
    }

    /// The time in which this many messages come, rounded up.
    pub fn time_of(self, messages: u64) -> Milliseconds {
        let time = u128::from(messages) * u128::from(self.per);
        let time = time.div_ceil(self.messages.into());
        Milliseconds(u32::try_from(time).unwrap_or(u32::MAX))
    }

    /// The number of messages that wait at once, by Little's law: the rate times the mean wait. `waits` has the wait of each of some messages, in milliseconds.
    pub fn waiting(self, waits: &[u64]) -> u64 {
        let total: u128 = waits.iter().copied().map(u128::from).sum();
        let divisor = u128::from(self.per) * waits.len().max(1) as u128;
        let waiting = (total * u128::from(self.messages) + divisor / 2) / divisor;
        u64::try_from(waiting).unwrap_or(u64::MAX)
    }

    /// The rate at which this number of messages wait at once, rounded down: in the shortest unit that has at least ten messages, or in hours. `None` if there is none.
    pub fn at(waiting: u64, waits: &[u64]) -> Option<Self> {
        let total: u128 = waits.iter().copied().map(u128::from).sum();
        let count = u128::from(waiting) * waits.len() as u128;
        let of = |(unit, per): (&'static str, u64)| {
            let messages = (count * u128::from(per)).checked_div(total)?;
            let messages = u64::try_from(messages).ok()?;
            Some(Self {
                messages,
                unit,
                per,
            })
        };
        let [seconds, minutes, hours] = UNITS.map(of);
        let is_large = |rate: &Self| rate.messages >= 10;
        seconds
            .filter(is_large)
            .or(minutes.filter(is_large))
            .or(hours)
            .filter(|rate| rate.messages > 0)
    }
}

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let (messages, unit) = text.trim().split_once('/').ok_or(InvalidRate)?;
        let unit = UNITS.into_iter().find(|(name, _)| *name == unit.trim());
        let (unit, per) = unit.ok_or(InvalidRate)?;
        let messages = messages.trim().parse().map_err(|_| InvalidRate)?;
        if !(1..=MOST).contains(&messages) {
            return Err(InvalidRate);
        }
        Ok(Self {
            messages,
            unit,
            per,
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.messages, self.unit)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn a_rate_is_a_number_and_a_unit() {
        for text in ["200/s", "50/m", "10/h", "1000000000/s"] {
            assert_eq!(rate(text).to_string(), text);
        }
        assert_eq!(rate(" 200 / s "), rate("200/s"));
        for text in [
            "",
            "200",
            "200s",
            "/s",
            "0/s",
            "-1/s",
            "1.5/s",
            "200/",
            "200/d",
            "200/S",
            "2 00/s",
            "200/s/s",
            "1000000001/s",
            "99999999999999999999/s",
        ] {
            assert_eq!(text.parse::<Rate>(), Err(InvalidRate), "{text:?}");
        }
    }

    #[test]
    fn a_rate_is_a_time_for_a_number_of_messages() {
        for (text, messages, expected) in [
            ("50/s", 5_000, 100_000),
            ("600/m", 1, 100),
            ("1/h", 2, 7_200_000),
            ("3/s", 1, 334),
            ("1/h", u64::MAX, u32::MAX),
        ] {
            assert_eq!(
                rate(text).time_of(messages),
                Milliseconds(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn the_number_that_waits_is_the_rate_times_the_mean_wait() {
        for (text, waits, expected) in [
            ("200/s", &[60_000, 60_000][..], 12_000),
            ("200/s", &[0, 60_000], 6_000),
            ("30/m", &[60_000], 30),
            ("7/h", &[1_800_000], 4),
            ("1000000000/s", &[u64::MAX], u64::MAX),
            ("1/s", &[], 0),
        ] {
            assert_eq!(rate(text).waiting(waits), expected, "{text} {waits:?}");
        }
    }

    #[test]
    fn the_rate_of_a_number_that_waits_is_rounded_down() {
        for (waits, expected) in [
            (&[60_000][..], Some("1666/s")),
            (&[0, 120_000], Some("1666/s")),
            (&[14 * 86_400_000], Some("297/h")),
            (&[43_200_000], Some("138/m")),
            (&[], None),
            (&[0], None),
        ] {
            let rate = Rate::at(100_000, waits).map(|rate| rate.to_string());
            assert_eq!(rate.as_deref(), expected, "{waits:?}");
        }
    }
}
