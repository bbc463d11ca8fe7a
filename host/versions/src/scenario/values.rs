//! The types of values in a file of scenarios. Each is checked as it is parsed, so that errors have a location.

use std::fmt;
use std::num::NonZeroU32;

use backstop_backoff::parse_duration;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::preset::{self, Preset};
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_files::{only_tables, text_or_table};

/// A duration with its unit, at most the contract's 49 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Duration(pub(super) Milliseconds);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationText)
    }
}

impl Duration {
    fn parse(text: &str) -> Option<Self> {
        let milliseconds = u32::try_from(parse_duration(text).ok()?).ok()?;
        Some(Self(Milliseconds(milliseconds)))
    }
}

struct DurationText;

impl Visitor<'_> for DurationText {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as \"500ms\", \"3s500ms\", \"15m\" or \"12h\", at most \"49d\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        Duration::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// A text, exactly or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The complete text.
    Exactly(String),
    /// A part of it.
    Containing(String),
}

impl Text {
    /// Whether `text` is as expected.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exactly(expected) => text == expected,
            Self::Containing(part) => text.contains(part),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(text) => f.write_str(text),
            Self::Containing(part) => write!(f, "… {part} …"),
        }
    }
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct Part {
    contains: String,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_table(
            deserializer,
            "a text, or { contains = \"a part of it\" }",
            |text| Some(Self::Exactly(text.to_owned())),
            |Part { contains }| Self::Containing(contains),
        )
    }
}

/// The expected delay: exact, or within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Exact to the millisecond.
    Exactly(Milliseconds),
    /// Within these bounds.
    Within(Bounds),
}

/// The bounds of one delay, and of the mean of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawBounds")]
pub struct Bounds {
    /// The shortest delay.
    pub min: Option<Milliseconds>,
    /// The longest delay.
    pub max: Option<Milliseconds>,
    /// The bounds of the mean of many delays.
    pub mean: Option<(Milliseconds, Milliseconds)>,
}

#[derive(Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct RawBounds {
    min: Option<Duration>,
    max: Option<Duration>,
    mean: Option<(Duration, Duration)>,
}

only_tables! {
    Part: "a table, such as { contains = \"a part of it\" }";
    RawBounds: "a table of bounds, such as { min = \"0s\", max = \"8s\" }";
}

impl TryFrom<RawBounds> for Bounds {
    type Error = &'static str;

    fn try_from(raw: RawBounds) -> Result<Self, Self::Error> {
        let RawBounds { min, max, mean } = raw;
        if min.is_none() && max.is_none() && mean.is_none() {
            return Err("expected at least one of `min`, `max` and `mean`");
        }
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return Err("`min` is above `max`");
        }
        if mean.is_some_and(|(low, high)| low > high) {
            return Err("the first of `mean` is above the second");
        }
        Ok(Self {
            min: min.map(|Duration(min)| min),
            max: max.map(|Duration(max)| max),
            mean: mean.map(|(Duration(low), Duration(high))| (low, high)),
        })
    }
}

impl Delay {
    /// Whether one delay is as expected.
    pub fn allows(&self, delay: Milliseconds) -> bool {
        match self {
            Self::Exactly(expected) => delay == *expected,
            Self::Within(Bounds { min, max, .. }) => {
                min.is_none_or(|min| delay >= min) && max.is_none_or(|max| delay <= max)
            }
        }
    }

    /// The bounds of the mean of many delays, if there are any.
    pub fn mean(&self) -> Option<(Milliseconds, Milliseconds)> {
        match self {
            Self::Exactly(_) => None,
            Self::Within(bounds) => bounds.mean,
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(delay) => delay.fmt(f),
            Self::Within(Bounds { min, max, .. }) => match (min, max) {
                (Some(min), Some(max)) => write!(f, "{min} to {max}"),
                (Some(min), None) => write!(f, "at least {min}"),
                (None, Some(max)) => write!(f, "at most {max}"),
                (None, None) => f.write_str("any delay"),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_table(
            deserializer,
            "a duration with its unit, such as \"30s\", at most \"49d\", or bounds, such as { min = \"0s\", max = \"8s\" }",
            |text| Duration::parse(text).map(|Duration(delay)| Self::Exactly(delay)),
            Self::Within,
        )
    }
}

/// A preset, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Named(pub(super) &'static Preset);

impl TryFrom<String> for Named {
    type Error = preset::UnknownPreset;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        preset::find(&name).map(Self)
    }
}

/// A random number as in the contract: from 0 to below 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Fraction(pub(super) f64);

impl TryFrom<f64> for Fraction {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        if (0.0..1.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err("expected a number from 0 to below 1")
        }
    }
}

/// A point in time, with its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::value::Datetime")]
pub(super) struct Moment(pub(super) Timestamp);

impl TryFrom<toml::value::Datetime> for Moment {
    type Error = &'static str;

    fn try_from(datetime: toml::value::Datetime) -> Result<Self, Self::Error> {
        let moment: Result<jiff::Timestamp, _> = datetime.to_string().parse();
        moment
            .ok()
            .and_then(|moment| u64::try_from(moment.as_millisecond()).ok())
            .map(|milliseconds| Self(Timestamp(milliseconds)))
            .ok_or("expected a point in time with its offset, such as 2026-01-01T09:30:00Z, from 1970 on")
    }
}

/// The number of random numbers with which a scenario is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct Numbers(pub(super) NonZeroU32);

impl TryFrom<u32> for Numbers {
    type Error = &'static str;

    fn try_from(numbers: u32) -> Result<Self, Self::Error> {
        NonZeroU32::new(numbers)
            .filter(|numbers| (2..=1_000_000).contains(&numbers.get()))
            .map(Self)
            .ok_or("expected 2 to 1000000 random numbers")
    }
}
