//! The values of settings: reading them, and checking their ranges.

use std::num::NonZeroU32;

use crate::{LONGEST_DELAY, Milliseconds, SettingsError, format_duration, parse_duration};

/// Names and values, each name once.
pub(crate) fn each_once<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> impl Iterator<Item = Result<(&'a str, &'a str), SettingsError>> {
    let mut seen = Vec::new();
    pairs.into_iter().map(move |(name, value)| {
        if seen.contains(&name) {
            return Err(SettingsError::Twice {
                name: name.to_owned(),
            });
        }
        seen.push(name);
        Ok((name, value))
    })
}

pub(crate) fn duration(
    name: &'static str,
    value: &str,
    least: Milliseconds,
    lowest: &'static str,
) -> Result<Milliseconds, SettingsError> {
    let milliseconds = parse_duration(value).map_err(|_| SettingsError::Invalid {
        name,
        value: value.to_owned(),
        expected: "a duration such as `500ms`, `1s`, `15m` or `12h`",
    })?;
    Milliseconds::try_from(milliseconds)
        .ok()
        .filter(|milliseconds| (least..=LONGEST_DELAY).contains(milliseconds))
        .ok_or_else(|| SettingsError::OutOfRange {
            name,
            value: value.to_owned(),
            lowest,
        })
}

pub(crate) fn in_range(
    name: &'static str,
    value: Milliseconds,
    least: Milliseconds,
    lowest: &'static str,
) -> Result<(), SettingsError> {
    if !(least..=LONGEST_DELAY).contains(&value) {
        let value = format_duration(value.into());
        return Err(SettingsError::OutOfRange {
            name,
            value,
            lowest,
        });
    }
    Ok(())
}

pub(crate) fn attempts(value: &str) -> Result<NonZeroU32, SettingsError> {
    let parsed = value.trim().parse();
    parsed.map_err(|_| SettingsError::max_attempts(value))
}

pub(crate) fn switch(value: &str) -> Result<bool, SettingsError> {
    match value.trim() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(SettingsError::Invalid {
            name: "respect-retry-after",
            value: value.to_owned(),
            expected: "`on` or `off`",
        }),
    }
}

/// Rejects a delay above the cap.
pub(crate) fn at_most_the_cap(
    name: &'static str,
    value: Milliseconds,
    cap: Milliseconds,
) -> Result<(), SettingsError> {
    if value > cap {
        return Err(SettingsError::AboveCap { name, value, cap });
    }
    Ok(())
}
