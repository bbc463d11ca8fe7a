//! JSON as it was written: numbers keep their digits and objects their order, since both reach the hash of a key.

use std::collections::HashMap;

use backstop_json::{Entries, pointer};
use serde::Serialize;
use serde_json::value::RawValue;

/// The deepest nesting of an event that has an idempotency key.
pub(crate) const DEPTH: usize = 100;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The number as it was written.
    Number(String),
    String(String),
    Array(Vec<Json>),
    /// The fields in their order. If a name occurs twice, the last value counts, at the first one's place, as in Python and JavaScript.
    Object(Vec<(String, Json)>),
}

/// Why text is no event.
///
/// ```
/// use backstop_idempotency::{Event, JsonError};
///
/// assert!(matches!(Event::parse("no JSON"), Err(JsonError::Syntax(_))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is not JSON, or a string in it is not Unicode.
    #[error("the event is not JSON")]
    Syntax(#[source] serde_json::Error),
    /// It is nested more than 100 levels deep.
    #[error("the event is nested more than {DEPTH} levels deep")]
    Depth,
}

impl Json {
    /// Parses JSON text.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonError> {
        let value: &RawValue = serde_json::from_str(text).map_err(JsonError::Syntax)?;
        Self::of_raw(value, 0)
    }

    /// A value as serde writes it.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let text = serde_json::to_string(value).map_err(JsonError::Syntax)?;
        Self::parse(&text)
    }

    fn of_raw(value: &RawValue, depth: usize) -> Result<Self, JsonError> {
        if depth > DEPTH {
            return Err(JsonError::Depth);
        }
        let text = value.get();
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(text).map_err(JsonError::Syntax)?;
                let mut fields = Fields::default();
                for (name, value) in entries {
                    fields.put(name, Self::of_raw(value, depth + 1)?);
                }
                fields.into_object()
            }
            Some(b'[') => {
                let values: Vec<&RawValue> =
                    serde_json::from_str(text).map_err(JsonError::Syntax)?;
                let values = values.into_iter().map(|it| Self::of_raw(it, depth + 1));
                Self::Array(values.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Self::String(serde_json::from_str(text).map_err(JsonError::Syntax)?),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') => Self::Null,
            _ => Self::Number(text.to_owned()),
        })
    }

    /// The value at a JSON pointer (RFC 6901).
    pub(crate) fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut found = self;
        for token in pointer::tokens(pointer)? {
            found = match found {
                Self::Object(fields) => {
                    let mut fields = fields.iter();
                    &fields.find(|(name, _)| name == token.name())?.1
                }
                Self::Array(values) => values.get(token.index()?)?,
                Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => return None,
            };
        }
        Some(found)
    }

    /// Whether there is no key in this value, by the rule of Powertools for Python: `null`, an empty string, and a list or an object of nothing but `null`.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(_) | Self::Number(_) => false,
            Self::String(text) => text.is_empty(),
            Self::Array(values) => values.iter().all(|it| *it == Self::Null),
            Self::Object(fields) => fields.iter().all(|(_, it)| *it == Self::Null),
        }
    }
}

/// Fields in their order. One that is set again keeps its place, as in Python and JavaScript.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<(String, Json)>,
    places: HashMap<String, usize>,
}

impl Fields {
    pub(crate) fn put(&mut self, name: String, value: Json) {
        let place = *self.places.entry(name.clone()).or_insert(self.fields.len());
        match self.fields.get_mut(place) {
            Some(field) => field.1 = value,
            None => self.fields.push((name, value)),
        }
    }

    pub(crate) fn into_object(self) -> Json {
        Json::Object(self.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_objects_their_order() {
        let text = r#"{"b": 12345678901234567890123, "a": [1.10, null], "b": "x"}"#;
        let expected = Json::Object(vec![
            ("b".to_owned(), Json::String("x".to_owned())),
            (
                "a".to_owned(),
                Json::Array(vec![Json::Number("1.10".to_owned()), Json::Null]),
            ),
        ]);
        assert_eq!(Json::parse(text).unwrap(), expected);
    }

    #[test]
    fn a_pointer_finds_fields_and_elements() {
        let event = Json::parse(r#"{"a/b": {"~": [7, 8]}, "": 1, "0": 2}"#).unwrap();
        let found = |pointer: &str| event.pointer(pointer).cloned();
        let number = |text: &str| Some(Json::Number(text.to_owned()));
        assert_eq!(found("/a~1b/~0/1"), number("8"));
        assert_eq!(found("/"), number("1"));
        assert_eq!(found("/0"), number("2"));
        assert_eq!(found(""), Some(event.clone()));
        for nothing in [
            "/a~1b/~0/01",
            "/a~1b/~0/+1",
            "/a~1b/~0/-",
            "/a~1b/~0/2",
            "/x",
            "/0/x",
        ] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_event_that_no_library_reads_is_an_error() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(matches!(Json::parse(&deep), Err(JsonError::Depth)));
        for text in ["", "{", "\"\\ud800\"", "{\"\\ud800\": 1}", "NaN", "1 2"] {
            assert!(
                matches!(Json::parse(text), Err(JsonError::Syntax(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn a_key_is_missing_if_it_holds_nothing() {
        let is_missing = |text: &str| Json::parse(text).unwrap().is_missing();
        for text in ["null", "\"\"", "[]", "{}", "[null, null]", "{\"a\": null}"] {
            assert!(is_missing(text), "{text}");
        }
        for text in ["0", "false", "\" \"", "[null, 0]", "{\"a\": \"\"}"] {
            assert!(!is_missing(text), "{text}");
        }
    }
}
