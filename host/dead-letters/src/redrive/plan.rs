//! What a run does. Fixed when it starts, and written into its folder.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use backstop_core::failure::Timestamp;
use backstop_core::share::Share;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::To;
use crate::letter::{Letter, Source};
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

/// How a run grows, and when it stops because its letters fail again.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// The steps.
    pub ramp: Ramp,
    /// The share of letters that fail again at which it stops.
    pub stop_at: Option<Share>,
    /// How long to wait after a step before looking for letters that came back.
    pub watch: Duration,
}

/// A share at which a run stops, and nothing that looks for letters that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("letters that came back are looked for after a step")]
pub struct NothingWatched;

impl Steps {
    /// As somebody wants it, and as usual where nothing is said: with steps, a minute and 5 %.
    pub fn of(
        ramp: Option<Ramp>,
        stop_at: Option<Share>,
        watch: Option<Duration>,
    ) -> Result<Self, NothingWatched> {
        if stop_at.is_some() && ramp.is_none() && watch.is_none() {
            return Err(NothingWatched);
        }
        let has_steps = ramp.is_some();
        let usual = STOP_AT.parse().ok().filter(|_| has_steps);
        Ok(Self {
            ramp: ramp.unwrap_or_else(Ramp::all),
            stop_at: stop_at.or(usual),
            watch: watch.unwrap_or(if has_steps { WATCH } else { Duration::ZERO }),
        })
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

as_text!(Ramp);

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
    pub to: Option<To>,
    /// Where the letters go that do not say where they come from.
    pub default_to: Option<To>,
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
    /// Whether each letter is written to a file of the run before it is sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_copies: bool,
    /// Whether each body is edited.
    pub edit: bool,
    /// Whether SQS moves the letters itself.
    pub native: bool,
    /// How long letters stay invisible if the run is killed, in seconds.
    pub visibility: u32,
    /// The most letters that are held at the same time.
    pub most: usize,
}

impl Plan {
    /// An id for a run: when it started, and four digits that tell runs of the same second apart.
    pub fn new_id(started: Timestamp) -> String {
        let digits = RandomState::new().build_hasher().finish() & 0xffff;
        let time = started.rfc3339();
        let time: String = time.chars().filter(char::is_ascii_digit).collect();
        let (day, time) = time.split_at_checked(8).unwrap_or((&time, ""));
        format!("{day}-{time}-{digits:04x}")
    }

    /// The target of a letter, if it is known. A topic of SNS is none: publishing again would reach every subscriber.
    pub(super) fn target_of(&self, letter: &Letter) -> Option<To> {
        let source = match &letter.source {
            Some(Source::Queue(arn)) => Some(To::Queue(arn.clone())),
            Some(Source::Function(arn)) => Some(To::Function(arn.clone())),
            Some(Source::Topic(_)) | None => None,
        };
        let to = self.to.clone().or(source);
        to.or_else(|| self.default_to.clone())
    }
}

/// How long letters stay invisible if a run is killed, unless its plan says so, in seconds.
pub const DEFAULT_VISIBILITY: u32 = 60;

/// How long to look for letters that come back after a step.
const WATCH: Duration = Duration::from_secs(60);

/// The share of failing letters at which a run with steps stops.
const STOP_AT: &str = "5%";

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
    fn a_run_with_steps_looks_for_letters_that_came_back() {
        let usual = Steps::of(None, None, None).unwrap();
        assert_eq!((usual.watch, usual.stop_at), (Duration::ZERO, None));
        assert_eq!(usual.ramp, Ramp::all());
        let grows = Steps::of("10,all".parse().ok(), None, None).unwrap();
        assert_eq!((grows.watch, grows.stop_at), (WATCH, STOP_AT.parse().ok()));
        let share: Option<Share> = "20%".parse().ok();
        let watched = Steps::of(None, share, Some(WATCH)).unwrap();
        assert_eq!(watched.stop_at, share);
        assert_eq!(Steps::of(None, share, None), Err(NothingWatched));
    }

    #[test]
    fn a_run_is_named_after_its_start() {
        let id = Plan::new_id(Timestamp(1_795_316_400_000));
        assert!(id.starts_with("20261122-030000-") && id.len() == 20, "{id}");
    }

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
}
