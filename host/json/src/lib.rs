//! Reads JSON that other programs wrote. A field that can't be read does not affect the others.
//!
//! `serde`'s derived structs accept arrays in place of objects, fail if a single field can't be read, and reject text with an unpaired surrogate, which Node writes when it cuts a string in the middle of an emoji. [`Object`] keeps each field as its JSON text and parses it on access. [`object`] deserializes a struct from an object only.

mod only;
pub mod pointer;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

pub use only::{object, only_object};
use text::Text;

/// The fields of a JSON object, each as its JSON text, however large its numbers and however deep it is. If a name occurs twice, the last value counts, as in JavaScript and Python.
#[derive(Debug, Clone, Default)]
pub struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    /// Parses the text of an object. Anything else is an error, including an array.
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The fields of `value`, if it is an object.
    pub fn of(value: &'a RawValue) -> Option<Self> {
        Self::parse(value.get()).ok()
    }

    /// The number of fields. Duplicate names count once.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a field, `null` included.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// Removes a field and returns its value, `null` included.
    pub fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name)
    }

    /// The value of a field, if it is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        text(self.get(name)?)
    }

    /// The value of a field, if it is an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        Self::of(self.get(name)?)
    }

    /// The value of a field, if it is an integer from 0 to `most`.
    pub fn integer(&self, name: &str, most: u32) -> Option<u32> {
        integer(self.get(name)?, most)
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
        let Entries(fields) = Entries::<Text, _>::deserialize(deserializer)?;
        let fields = fields.into_iter().map(|(Text(name), value)| (name, value));
        Ok(Self(fields.collect()))
    }
}

/// The fields of a JSON object in their order. A name that occurs twice is there twice.
#[derive(Debug)]
pub struct Entries<N, V>(pub Vec<(N, V)>);

impl<'de, N: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<N, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<N, V>(PhantomData<(N, V)>);

        impl<'de, N: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for InOrder<N, V> {
            type Value = Entries<N, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// The text of a value, if it is a string. An unpaired surrogate becomes U+FFFD.
pub fn text(value: &RawValue) -> Option<String> {
    let Text(text) = serde_json::from_str(value.get()).ok()?;
    Some(text)
}

/// A value for display: a string as its text, `null` as the empty string, anything else as its JSON text.
pub fn shown(value: &RawValue) -> String {
    match value.get() {
        "null" => String::new(),
        json => text(value).unwrap_or_else(|| json.to_owned()),
    }
}

/// A value, if it is a number. A number outside a double's range is infinite, as in JavaScript and Python.
pub fn number(value: &RawValue) -> Option<f64> {
    // `f64` also parses words such as `inf`; `RawValue` guarantees only that this is JSON.
    let json = value.get();
    json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        .then(|| json.parse().ok())?
}

/// A value, if it is an integer from 0 to `most` in any notation: `2`, `2.0`, `2e0`.
pub fn integer(value: &RawValue, most: u32) -> Option<u32> {
    let number = number(value).filter(|number| number.fract() == 0.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an integer in the range of u32"
    )]
    (0.0..=f64::from(most))
        .contains(&number)
        .then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_keeps_its_json_text() {
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
    fn only_an_object_is_parsed() {
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
    fn an_integer_is_recognised_in_any_notation() {
        let of = |json: &str| integer(&RawValue::from_string(json.to_owned()).unwrap(), u32::MAX);
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
    fn a_string_is_shown_as_its_text_and_anything_else_as_json() {
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
