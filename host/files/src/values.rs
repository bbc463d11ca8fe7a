//! The types of values in the configuration, parsed from the text that people write.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use backstop_backoff::parse_duration;
use backstop_core::settings::Settings;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

/// A duration with its unit: `"30s"`.
#[derive(Debug, Clone, Copy)]
pub struct Span(pub Duration);

/// Parses a duration with its unit.
pub fn parse_span(text: &str) -> Result<Duration, backstop_backoff::ParseDurationError> {
    parse_duration(text).map(Duration::from_millis)
}

/// A number of bytes: `"64MiB"`, or an integer.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub usize);

/// A program and its arguments: a list, or a string without arguments.
#[derive(Debug, Clone)]
pub struct Command(pub Vec<String>);

/// A policy's settings: a table of strings, numbers and booleans. The policy receives them as text.
#[derive(Debug, Clone, Default)]
pub struct SettingsTable(pub Settings);

/// Parses the integer of a flag. It starts at 1 if the type does not hold 0. One that is too large for the type is told the largest.
pub fn parse_number<T: FromStr>(text: &str) -> Result<T, String> {
    let text = text.trim();
    text.parse().map_err(|_| {
        let least = if "0".parse::<T>().is_ok() { 0 } else { 1 };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let largest = ["18446744073709551615", "4294967295", "65535", "255"];
        let most = largest.iter().find(|most| most.parse::<T>().is_ok());
        match most.filter(|_| is_number) {
            Some(most) => format!("expected a whole number from {least} to {most}"),
            None => format!("expected a whole number from {least}"),
        }
    })
}

/// Parses the integer of a flag that is from `LEAST` to `MOST`.
pub fn parse_between<const LEAST: u16, const MOST: u32, T: TryFrom<u32>>(
    text: &str,
) -> Result<T, String> {
    let number: Option<u32> = text.trim().parse().ok();
    number
        .filter(|number| (u32::from(LEAST)..=MOST).contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("expected a whole number from {LEAST} to {MOST}"))
}

macro_rules! deserialize_with {
    ($type:ty, $visitor:ident) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($visitor)
            }
        }
    };
}

struct SpanText;
deserialize_with!(Span, SpanText);

impl Visitor<'_> for SpanText {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as \"30s\", \"15m\" or \"12h\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        parse_span(text)
            .map(Span)
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

struct BytesText;
deserialize_with!(Bytes, BytesText);

impl Visitor<'_> for BytesText {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, such as \"64MiB\", \"4KiB\" or 4096")
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Bytes, E> {
        usize::try_from(bytes)
            .map(Bytes)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        let bytes = bytes(text).map(Bytes);
        bytes.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

fn bytes(text: &str) -> Option<usize> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match text.get(number.len()..)? {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.trim().parse::<usize>().ok()?.checked_mul(unit)
}

/// Parses a number of bytes.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    bytes(text).ok_or_else(|| {
        format!(
            "`{text}` is not a number of bytes: expected one such as \"64MiB\", \"4KiB\" or 4096"
        )
    })
}

struct CommandWords;
deserialize_with!(Command, CommandWords);

impl<'de> Visitor<'de> for CommandWords {
    type Value = Command;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a program and its arguments, such as [\"./work.sh\", \"--fast\"]")
    }

    fn visit_str<E>(self, program: &str) -> Result<Command, E> {
        Ok(Command(vec![program.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Command, A::Error> {
        let mut command = Vec::new();
        while let Some(word) = words.next_element()? {
            command.push(word);
        }
        Ok(Command(command))
    }
}

struct SettingsVisitor;
deserialize_with!(SettingsTable, SettingsVisitor);

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = SettingsTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings, such as { base = \"2s\", max-attempts = 5 }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<SettingsTable, A::Error> {
        let mut settings = Vec::new();
        while let Some((name, Setting(value))) = table.next_entry()? {
            settings.push((name, value));
        }
        Ok(SettingsTable(settings.into()))
    }
}

/// One value of a setting, as text.
struct Setting(String);

/// One element of a list.
struct ListElement(String);

struct ElementText;
deserialize_with!(ListElement, ElementText);

impl Visitor<'_> for ElementText {
    type Value = ListElement;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text that is not empty and has no comma, which separates the elements of a list; `*` stands for any text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ListElement, E> {
        if text.trim().is_empty() || text.contains(',') {
            return Err(E::invalid_value(de::Unexpected::Str(text), &self));
        }
        Ok(ListElement(text.to_owned()))
    }
}

struct SettingText;
deserialize_with!(Setting, SettingText);

impl<'de> Visitor<'de> for SettingText {
    type Value = Setting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true or false, or a list of texts")
    }

    /// A policy receives texts only: the elements, separated by commas.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Setting, A::Error> {
        let mut elements: Vec<String> = Vec::new();
        while let Some(ListElement(element)) = list.next_element()? {
            elements.push(element);
        }
        Ok(Setting(elements.join(",")))
    }

    fn visit_str<E>(self, text: &str) -> Result<Setting, E> {
        Ok(Setting(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Setting, E> {
        Ok(Setting(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Setting, E> {
        Ok(Setting(number.to_string()))
    }

    fn visit_bool<E>(self, switch: bool) -> Result<Setting, E> {
        Ok(Setting(switch.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_told_what_would() {
        assert_eq!(parse_number::<u16>(" 7 "), Ok(7));
        for (text, expected) in [
            ("many", "expected a whole number from 0"),
            ("", "expected a whole number from 0"),
            ("70000", "expected a whole number from 0 to 65535"),
        ] {
            assert_eq!(parse_number::<u16>(text).unwrap_err(), expected, "{text}");
        }
        let expected = "expected a whole number from 1 to 4294967295";
        assert_eq!(parse_number::<NonZeroU32>("0").unwrap_err(), expected);
        assert_eq!(parse_between::<1, 16, u16>("16"), Ok(16));
        for text in ["0", "17", "-1", "99999999999", "x"] {
            let refused = parse_between::<1, 16, u16>(text).unwrap_err();
            assert_eq!(refused, "expected a whole number from 1 to 16", "{text}");
        }
    }
}
