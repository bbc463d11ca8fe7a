//! Why settings are invalid.

use std::fmt;

use crate::{Milliseconds, format_duration};

/// Why settings are invalid. The message names the setting and what is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the message of each is its documentation")]
#[non_exhaustive]
pub enum SettingsError {
    Unknown {
        name: String,
        expected: &'static [&'static str],
    },
    Twice {
        name: String,
    },
    Invalid {
        name: &'static str,
        value: String,
        expected: &'static str,
    },
    OutOfRange {
        name: &'static str,
        value: String,
        lowest: &'static str,
    },
    AboveCap {
        name: &'static str,
        value: Milliseconds,
        cap: Milliseconds,
    },
    TwoLists {
        code: String,
        first: &'static str,
        second: &'static str,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, expected } => {
                let expected = expected.join(", ");
                write!(f, "unknown setting `{name}`: expected one of {expected}")
            }
            Self::Twice { name } => write!(f, "setting `{name}` is given twice"),
            Self::Invalid {
                name,
                value,
                expected,
            } => {
                write!(f, "setting `{name}` is `{value}`: expected {expected}")
            }
            Self::OutOfRange {
                name,
                value,
                lowest,
            } => {
                write!(f, "setting `{name}` is `{value}`: expected {lowest} to 14d")
            }
            Self::AboveCap { name, value, cap } => write!(
                f,
                "setting `{name}` is `{}`: expected at most the cap of {}",
                format_duration((*value).into()),
                format_duration((*cap).into()),
            ),
            Self::TwoLists {
                code,
                first,
                second,
            } => write!(
                f,
                "`{code}` is in `{first}` and in `{second}`: expected a code in one list"
            ),
        }
    }
}

impl std::error::Error for SettingsError {}

impl SettingsError {
    /// `max-attempts` is not a whole number from 1.
    pub fn max_attempts(value: impl Into<String>) -> Self {
        Self::Invalid {
            name: "max-attempts",
            value: value.into(),
            expected: "a whole number from 1",
        }
    }
}
