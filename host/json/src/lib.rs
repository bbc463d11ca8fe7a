//! JSON that others wrote, read so that one odd field costs nothing but itself.
//!
//! `serde`'s derived structs take arrays for objects, fail as a whole when one field can't be read, and refuse text with half of a surrogate pair in it, which Node writes whenever a text is cut through an emoji. [`Object`] keeps each field as the text that it was written as, and reads it when it is asked for; [`object`] is for structs that may only be made of objects.

mod only;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

pub use only::{object, only_object};
use text::Text;

/// The fields of a JSON object, each as the text that it was written as, however large its numbers and however deep it is. Of a name that is there twice the last counts, as in JavaScript and Python.
#[derive(Debug, Clone, Default)]
pub struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    /// Reads the text of an object. Everything else is an error, an array too.
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The fields of a value that is an object.
    pub fn of(value: &'a RawValue) -> Option<Self> {
        Self::parse(value.get()).ok()
    }

    /// How many fields there are, by different names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a field, `null` included.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// Takes a field out, `null` included.
    pub fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name)
    }

    /// The value of a field that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        text(self.get(name)?)
    }

    /// The value of a field that is an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        Self::of(self.get(name)?)
    }

    /// The value of a field that is a whole number from 0 to `most`.
    pub fn whole(&self, name: &str, most: u32) -> Option<u32> {
        whole(self.get(name)?, most)
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (String, &'a RawValue);
    type IntoIter = std::collections::btree_map::IntoIter<String, &'a RawValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((Text(name), value)) = map.next_entry::<Text, &RawValue>()? {
                    fields.insert(name, value);
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// The text of a value that is a string. Half of a surrogate pair becomes U+FFFD.
pub fn text(value: &RawValue) -> Option<String> {
    let Text(text) = serde_json::from_str(value.get()).ok()?;
    Some(text)
}

/// What there is of a value to show: a string as its text, nothing of `null`, anything else as its JSON text.
pub fn shown(value: &RawValue) -> String {
    match value.get() {
        "null" => String::new(),
        json => text(value).unwrap_or_else(|| json.to_owned()),
    }
}

/// A value that is a number; infinite beyond what a double holds, as in JavaScript and Python.
pub fn number(value: &RawValue) -> Option<f64> {
    // A JSON number, and no other word that `f64` knows: `RawValue` has only checked that it is JSON.
    let json = value.get();
    json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        .then(|| json.parse().ok())?
}

/// A value that is a whole number from 0 to `most`, in whatever way it is written: `2`, `2.0`, `2e0`.
pub fn whole(value: &RawValue, most: u32) -> Option<u32> {
    let number = number(value).filter(|number| number.fract() == 0.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and within 0 to a u32"
    )]
    (0.0..=f64::from(most))
        .contains(&number)
        .then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_the_text_that_was_written() {
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        let json = format!(
            r#" {{"a": 1e400, "b": {deep}, "c": "x\ud83d", "c\ud83d": 1.10, "n": null, "d": 1, "d": 2}} "#
        );
        let fields = Object::parse(&json).unwrap();
        assert_eq!((fields.len(), fields.is_empty()), (6, false));
        let raw = |name: &str| fields.get(name).map(RawValue::get);
        assert_eq!(raw("a"), Some("1e400"));
        assert_eq!(raw("b"), Some(deep.as_str()));
        assert_eq!(raw("c\u{fffd}"), Some("1.10"));
        assert_eq!((raw("n"), raw("d")), (Some("null"), Some("2")));
        assert_eq!(fields.text("c").as_deref(), Some("x\u{fffd}"));
        assert_eq!(raw("e"), None);
    }

    #[test]
    fn nothing_else_is_an_object() {
        for json in [
            "",
            "{",
            "[]",
            "[1]",
            r#"[["a", 1]]"#,
            "null",
            "5",
            "\"{}\"",
            "{} {}",
            "{\"a\": }",
        ] {
            assert!(Object::parse(json).is_err(), "{json}");
        }
        assert!(Object::parse("{}").unwrap().is_empty());
    }

    #[test]
    fn numbers_count_by_their_value() {
        let of = |json: &str| whole(&RawValue::from_string(json.to_owned()).unwrap(), u32::MAX);
        for (json, expected) in [
            ("2", Some(2)),
            ("2.0", Some(2)),
            ("2e0", Some(2)),
            ("0.2e1", Some(2)),
            ("-0", Some(0)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("-1", None),
            ("1.5", None),
            ("1e400", None),
            ("\"2\"", None),
            ("true", None),
            ("null", None),
            ("[2]", None),
        ] {
            assert_eq!(of(json), expected, "{json}");
        }
    }

    #[test]
    fn what_is_shown_of_a_value_is_its_text() {
        for (json, expected) in [
            (r#""a\n\ud83d\ude00""#, "a\n😀"),
            ("null", ""),
            ("5", "5"),
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
        ] {
            let value = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(shown(&value), expected, "{json}");
        }
    }
}
