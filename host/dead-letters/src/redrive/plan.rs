//! What a run does. Fixed when it starts, and written into its folder.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use backstop_core::failure::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::triage::Attempts;

/// One step of a run that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This many further letters.
    Letters(u64),
    /// All that are left.
    All,
}

/// The steps of a run: `10,100,all` moves 10 letters, then 100 more, then the rest.
///
/// ```
/// use backstop_dead_letters::redrive::Ramp;
///
/// let ramp: Ramp = "10,100,all".parse()?;
/// assert_eq!(ramp.ends(), [10, 110, u64::MAX]);
/// assert!("all,10".parse::<Ramp>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ramp(Vec<Step>);

impl Ramp {
    /// All letters at once.
    pub fn all() -> Self {
        Self(vec![Step::All])
    }

    /// How many letters are moved when each step has ended.
    pub fn ends(&self) -> Vec<u64> {
        let steps = self.0.iter();
        let total = steps.scan(0_u64, |total, step| {
            *total = match step {
                Step::Letters(letters) => total.saturating_add(*letters),
                Step::All => u64::MAX,
            };
            Some(*total)
        });
        total.collect()
    }
}

impl FromStr for Ramp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let steps: Option<Vec<_>> = text
            .split(',')
            .map(|step| match step.trim() {
                "all" => Some(Step::All),
                number => number.parse().ok().filter(|it| *it > 0).map(Step::Letters),
            })
            .collect();
        let is_valid = |steps: &Vec<Step>| {
            let before_last = steps.len().saturating_sub(1);
            !steps.iter().take(before_last).any(|it| *it == Step::All)
        };
        steps.filter(is_valid).map(Self).ok_or_else(|| {
            format!("`{text}` has no steps: expected numbers of letters, and `all` at the end or not, such as 10,100,all")
        })
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            match step {
                Step::Letters(letters) => write!(f, "{separator}{letters}")?,
                Step::All => write!(f, "{separator}all")?,
            }
        }
        Ok(())
    }
}

/// A share of letters, such as `5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Whether `part` of `whole` is more than this share.
    ///
    /// ```
    /// use backstop_dead_letters::redrive::Share;
    ///
    /// let share: Share = "5%".parse()?;
    /// assert!(share.is_exceeded(1, 10));
    /// assert!(!share.is_exceeded(5, 100));
    /// assert!(!share.is_exceeded(0, 0));
    /// # Ok::<(), String>(())
    /// ```
    #[expect(
        clippy::cast_precision_loss,
        reason = "a queue has far fewer letters than 2^52"
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
            .ok_or_else(|| format!("`{text}` is no share: expected one from 0% to 100%"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Serializes a type as its text.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(super) use as_text;

as_text!(Ramp, Share);

/// What a run does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    /// The version of this form.
    pub version: u32,
    /// Identifies the run.
    pub run: String,
    /// When it started, by the time of SQS.
    pub started: Timestamp,
    /// Who started it.
    pub who: String,
    /// Why, in the words of who started it.
    pub why: Option<String>,
    /// The URL of the dead-letter queue.
    pub queue: String,
    /// The endpoint in place of the region's own.
    pub endpoint_url: Option<String>,
    /// The flags that choose letters, as they were given.
    pub filters: Vec<String>,
    /// Where every letter goes.
    pub to: Option<super::To>,
    /// Where the letters go that do not say where they come from.
    pub default_to: Option<super::To>,
    /// Further queues in which letters that fail again may appear.
    pub watched: Vec<String>,
    /// Whether attempts go on or start again.
    pub attempts: Attempts,
    /// The file with the keys that sign the envelopes of letters whose attempts go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope_key_file: Option<PathBuf>,
    /// The most letters in a time, such as `50/s`.
    pub rate: Option<String>,
    /// The steps.
    pub ramp: Ramp,
    /// The share of letters that fail again at which a run stops.
    pub stop_at: Option<Share>,
    /// How long to wait after a step before looking for letters that came back.
    #[serde(with = "seconds")]
    pub watch: Duration,
    /// How long to wait for letters of the set that others hold.
    #[serde(with = "seconds", default = "default_wait")]
    pub wait: Duration,
    /// Whether each body is edited.
    pub edit: bool,
    /// Whether SQS moves the letters itself.
    pub native: bool,
    /// How long letters stay invisible if the run is killed, in seconds.
    pub visibility: u32,
    /// The most letters that are held at the same time.
    pub most: usize,
}

/// How long a run waits for letters that others hold, unless its plan says so.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(120);

fn default_wait() -> Duration {
    DEFAULT_WAIT
}

/// Durations as whole seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbers_with_all_at_the_end_or_not() {
        for (text, ends) in [
            ("all", vec![u64::MAX]),
            ("10", vec![10]),
            (" 1, 2 ,all", vec![1, 3, u64::MAX]),
            ("5,5", vec![5, 10]),
        ] {
            let ramp: Ramp = text.parse().unwrap();
            assert_eq!(ramp.ends(), ends, "{text}");
            assert_eq!(ramp.to_string().parse::<Ramp>(), Ok(ramp));
        }
        for wrong in ["", "0", "all,10", "10,,all", "10,-1", "ten"] {
            assert!(wrong.parse::<Ramp>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_is_exceeded_by_more_than_itself() {
        let share: Share = "2.5%".parse().unwrap();
        assert!(!share.is_exceeded(1, 40) && share.is_exceeded(2, 40));
        let none: Share = "0%".parse().unwrap();
        assert!(!none.is_exceeded(0, 10) && none.is_exceeded(1, 10_000));
        for wrong in ["5", "101%", "-1%", "%", "NaN%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
