//! The settings that the policies with a [formula](crate::formula) share.

use std::num::NonZeroU32;

use crate::values::{at_most_the_cap, attempts, duration, each_once, in_range, switch};
use crate::{Class, Codes, Milliseconds, SettingsError, classify, format_duration};

/// Every setting's name, in the order of the documentation.
const NAMES: [&str; 9] = [
    "base",
    "cap",
    "floor",
    "max-attempts",
    "max-age",
    "respect-retry-after",
    "permanent",
    "transient",
    "throttled",
];

/// The settings of a policy. Created only by [`Settings::parse`], so that `0 < base <= cap` and `floor <= cap` hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The delay that backoff starts from; 1 s by default.
    pub base: Milliseconds,
    /// The longest delay by a policy's formula; 12 h by default.
    pub cap: Milliseconds,
    /// The shortest delay; 0 by default.
    pub floor: Milliseconds,
    /// A message is dead-lettered after this many failed attempts; never by default.
    pub max_attempts: Option<NonZeroU32>,
    /// A failed message of this age or older is dead-lettered; never by default.
    pub max_age: Option<Milliseconds>,
    /// Whether a delay is at least what the failing service asked for, even beyond the cap, up to 14 days; yes by default.
    pub respect_retry_after: bool,
    /// Codes with a class of the operator's; none by default.
    pub codes: Codes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base: 1_000,
            cap: 12 * 3_600_000,
            floor: 0,
            max_attempts: None,
            max_age: None,
            respect_retry_after: true,
            codes: Codes::NONE,
        }
    }
}

impl Settings {
    /// Parses names and values. Omitted settings have their default. Rejects unknown names, repeated names and invalid values.
    ///
    /// ```
    /// use backstop_backoff::Settings;
    /// let settings = Settings::parse([("base", "2s"), ("max-attempts", "5")]).unwrap();
    /// assert_eq!(settings.base, 2_000);
    /// let refused = Settings::parse([("bass", "2s")]).unwrap_err();
    /// assert!(refused.to_string().starts_with("unknown setting `bass`"));
    /// ```
    pub fn parse<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        for pair in each_once(pairs) {
            let (name, value) = pair?;
            match name {
                "base" => settings.base = duration("base", value, 1, "1ms")?,
                "cap" => settings.cap = duration("cap", value, 1, "1ms")?,
                "floor" => settings.floor = duration("floor", value, 0, "0s")?,
                "max-age" => settings.max_age = Some(duration("max-age", value, 1, "1ms")?),
                "max-attempts" => settings.max_attempts = Some(attempts(value)?),
                "respect-retry-after" => settings.respect_retry_after = switch(value)?,
                _ => match settings.codes.read(name, value) {
                    Some(read) => read?,
                    None => {
                        return Err(SettingsError::Unknown {
                            name: name.to_owned(),
                            expected: &NAMES,
                        });
                    }
                },
            }
        }
        settings.validate()?;
        Ok(settings)
    }

    /// Whether every value is in its range, for settings that were not [parsed](Self::parse). Rejects invalid values in the words of `parse`.
    pub fn validate(&self) -> Result<(), SettingsError> {
        in_range("base", self.base, 1, "1ms")?;
        in_range("cap", self.cap, 1, "1ms")?;
        in_range("floor", self.floor, 0, "0s")?;
        in_range("max-age", self.max_age.unwrap_or(1), 1, "1ms")?;
        at_most_the_cap("base", self.base, self.cap)?;
        at_most_the_cap("floor", self.floor, self.cap)?;
        self.codes.validate()
    }

    /// The class of an error: of the list that has its code, else [the default](classify()).
    pub fn classify(&self, code: &str, status: Option<u16>) -> Class {
        let listed = self.codes.class_of(code);
        listed.unwrap_or_else(|| classify(code, status))
    }

    /// The settings that differ from their defaults, as [`parse`](Self::parse) reads them.
    pub fn changed(&self) -> Vec<(&'static str, String)> {
        let default = Self::default();
        let mut changed = Vec::new();
        let mut duration = |name, value: Option<Milliseconds>, default| {
            if let Some(value) = value.filter(|_| value != default) {
                changed.push((name, format_duration(value.into())));
            }
        };
        duration("base", Some(self.base), Some(default.base));
        duration("cap", Some(self.cap), Some(default.cap));
        duration("floor", Some(self.floor), Some(default.floor));
        duration("max-age", self.max_age, default.max_age);
        if let Some(most) = self.max_attempts {
            changed.push(("max-attempts", most.to_string()));
        }
        if self.respect_retry_after != default.respect_retry_after {
            changed.push(("respect-retry-after", "off".to_owned()));
        }
        changed.extend(self.codes.changed());
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_settings_have_their_default() {
        assert_eq!(Settings::parse([]), Ok(Settings::default()));
    }

    #[test]
    fn every_setting_is_read() {
        let settings = Settings::parse([
            ("base", "2s"),
            ("cap", "15m"),
            ("floor", "500ms"),
            ("max-attempts", "5"),
            ("max-age", "3d"),
            ("respect-retry-after", "off"),
            ("throttled", "Busy"),
        ]);
        let mut codes = Codes::NONE;
        codes.extend(Class::Throttled, ["Busy"]);
        let expected = Settings {
            base: 2_000,
            cap: 900_000,
            floor: 500,
            max_attempts: NonZeroU32::new(5),
            max_age: Some(259_200_000),
            respect_retry_after: false,
            codes,
        };
        assert_eq!(settings, Ok(expected));
    }

    #[test]
    fn an_invalid_setting_is_rejected_by_name() {
        for (pairs, message) in [
            (
                vec![("bas", "1s")],
                "unknown setting `bas`: expected one of base, cap, floor, max-attempts, max-age, respect-retry-after, permanent, transient, throttled",
            ),
            (
                vec![("base", "1s"), ("base", "2s")],
                "setting `base` is given twice",
            ),
            (
                vec![("base", "1")],
                "setting `base` is `1`: expected a duration such as `500ms`, `1s`, `15m` or `12h`",
            ),
            (
                vec![("base", "0s")],
                "setting `base` is `0s`: expected 1ms to 14d",
            ),
            (
                vec![("cap", "15d")],
                "setting `cap` is `15d`: expected 1ms to 14d",
            ),
            (
                vec![("max-age", "0s")],
                "setting `max-age` is `0s`: expected 1ms to 14d",
            ),
            (
                vec![("floor", "-1s")],
                "setting `floor` is `-1s`: expected a duration such as `500ms`, `1s`, `15m` or `12h`",
            ),
            (
                vec![("base", "2s"), ("cap", "1s")],
                "setting `base` is `2s`: expected at most the cap of 1s",
            ),
            (
                vec![("floor", "13h")],
                "setting `floor` is `13h`: expected at most the cap of 12h",
            ),
            (
                vec![("max-attempts", "0")],
                "setting `max-attempts` is `0`: expected a whole number from 1",
            ),
            (
                vec![("max-attempts", "many")],
                "setting `max-attempts` is `many`: expected a whole number from 1",
            ),
            (
                vec![("respect-retry-after", "maybe")],
                "setting `respect-retry-after` is `maybe`: expected `on` or `off`",
            ),
            (
                vec![("transient", "Busy"), ("permanent", "Declined,Busy")],
                "`Busy` is in `transient` and in `permanent`: expected a code in one list",
            ),
        ] {
            assert_eq!(Settings::parse(pairs).unwrap_err().to_string(), message);
        }
    }
}
