//! The types of the values of keys: what a file may say, and how the text of a variable or a flag is read.

use std::path::PathBuf;

use backstop_core::idempotency::{OnMissingKey, OnUnknown};
use backstop_core::settings::{parse_pair, parse_pairs};
use backstop_files::values::{parse_bytes, parse_number, parse_span};
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde_json::{Value, json};

use super::super::raw::{
    self, Bytes, Command, DeadLetterQueues, GroupRoles, Policy, Queues, SettingsTable, Span, Texts,
    Windows,
};
use super::super::{
    AdminRole, ConfigError, FunctionHandler, Places, RecordAttributes, RecordFormat, Variables,
    value,
};
use super::{Key, Table};
use crate::Backstop;
use crate::hold::HoldMode;
use crate::record::Recorded;

/// The type of a key's value in the raw form.
pub(in crate::config) trait RawValue: Sized {
    /// Whether a file has to say it, and what it may say.
    const IN_FILES: (bool, fn() -> Value) = (true, Self::schema);

    /// What a file may say.
    fn schema() -> Value;

    /// Reads the text of a variable or of a flag.
    fn of_text(_text: &str) -> Result<Self, String> {
        Err("such a value has no text".to_owned())
    }

    /// Reads the texts of a flag. The last one wins, unless all have a part of the value.
    fn of_flag(texts: &[String]) -> Result<Self, String> {
        Self::of_text(texts.last().map_or("", String::as_str))
    }

    /// How large it is, if it has bounds: a number, milliseconds or bytes.
    fn size(&self) -> Option<u128> {
        None
    }

    /// Checks that it is within the bounds of its key. `path` is its full name.
    fn check_at(&self, key: &Key, path: &str, places: &Places) -> Result<(), ConfigError> {
        let checked = key.check_bounds(self);
        checked.map_err(|expected| value(places.of(path), expected))
    }

    /// Makes a path of a flag one of the working directory, and not of the file's.
    fn in_working_directory(self, _host: &Backstop) -> Self {
        self
    }
}

/// Overrides a value by its environment variable, if it has one that is set.
pub(in crate::config) fn override_by<T: RawValue>(
    key: &Key,
    slot: &mut T,
    variable: Variables<'_>,
    places: &mut Places,
) -> Result<(), ConfigError> {
    if key.variable.is_empty() {
        return Ok(());
    }
    if let Some(text) = variable(key.variable).filter(|text| !text.trim().is_empty()) {
        places.name(key.path(), key.variable);
        let read = key.checked(T::of_text(&text));
        *slot = read.map_err(|expected| value(key.variable, expected))?;
    }
    Ok(())
}

impl<T: RawValue> RawValue for Option<T> {
    const IN_FILES: (bool, fn() -> Value) = (false, T::schema);

    fn schema() -> Value {
        T::schema()
    }

    fn of_text(text: &str) -> Result<Self, String> {
        T::of_text(text).map(Some)
    }

    fn of_flag(texts: &[String]) -> Result<Self, String> {
        T::of_flag(texts).map(Some)
    }

    fn size(&self) -> Option<u128> {
        self.as_ref()?.size()
    }

    fn check_at(&self, key: &Key, path: &str, places: &Places) -> Result<(), ConfigError> {
        self.as_ref()
            .map_or(Ok(()), |it| it.check_at(key, path, places))
    }

    fn in_working_directory(self, host: &Backstop) -> Self {
        self.map(|value| value.in_working_directory(host))
    }
}

/// Implements [`RawValue`] by a schema, the size of a value that may have bounds, the value of a text if the type can be one, and the value of a flag's texts if they are read in another way.
macro_rules! values {
    ($($type:ty: $schema:tt $([size $self:ident => $size:expr])? $(, $text:ident => $value:expr)? $(, [$texts:ident] => $all:expr)?;)*) => {$(
        impl RawValue for $type {
            fn schema() -> Value {
                json!($schema)
            }
            $(
                fn size(&self) -> Option<u128> {
                    let $self = self;
                    $size.try_into().ok()
                }
            )?
            $(
                fn of_text($text: &str) -> Result<Self, String> {
                    $value
                }
            )?
            $(
                fn of_flag($texts: &[String]) -> Result<Self, String> {
                    $all
                }
            )?
        }
    )*};
}

values! {
    String: { "type": "string" }, text => Ok(text.to_owned());
    Texts: { "type": "array", "items": { "type": "string" } }, text => Ok(split(text)), [texts] => Ok(texts.to_vec());
    bool: { "type": "boolean" }, text => text.trim().parse().map_err(|_| format!("`{text}` is neither true nor false"));
    u32: { "type": "integer", "minimum": 0 } [size it => *it], text => parse_number(text);
    u64: { "type": "integer", "minimum": 0 } [size it => *it], text => parse_number(text);
    usize: { "type": "integer", "minimum": 0 } [size it => *it], text => parse_number(text);
    Span: { "type": "string", "pattern": "^[0-9].*[a-z]$" } [size it => it.0.as_millis()], text => parse_span(text.trim()).map(Span).map_err(|error| error.to_string());
    Bytes: { "type": ["string", "integer"] } [size it => it.0], text => parse_bytes(text.trim()).map(Bytes);
    AdminRole: { "enum": ["view", "bodies", "act"] }, text => by_name(text);
    GroupRoles: { "type": "object", "additionalProperties": { "enum": ["view", "bodies", "act"] } };
    HoldMode: { "enum": ["visibility", "resend", "auto"] }, text => text.parse::<Self>().map_err(|error| error.to_string());
    RecordFormat: { "enum": ["python", "typescript"] }, text => by_name(text);
    Recorded: { "enum": ["decisions", "outcomes", "all"] }, text => by_name(text);
    OnUnknown: { "enum": ["retry", "dead-letter"] }, text => by_name(text);
    OnMissingKey: { "enum": ["error", "not-idempotent"] }, text => by_name(text);
    RecordAttributes: { "type": "object", "additionalProperties": { "type": "string" } };
    SettingsTable: { "type": "object", "additionalProperties": { "type": ["string", "number", "boolean", "array"] } },
        text => parse_pairs(text).map(|pairs| Self(pairs.into())).map_err(|error| error.to_string()),
        [texts] => texts.iter().map(|text| parse_pair(text)).collect::<Result<_, _>>().map(Self).map_err(|error| error.to_string());
    Command: { "type": ["string", "array"], "items": { "type": "string" } }, [words] => Ok(Self(words.to_vec()));
    FunctionHandler: {};
    DeadLetterQueues: { "type": ["string", "object"], "additionalProperties": { "type": "string" } }, text => Self::parse(text), [texts] => Self::of_each(texts);
    Policy: { "type": ["string", "object"] }, text => Ok(Self::Single(text.to_owned()));
    Windows: { "type": "array", "items": { "type": "object", "additionalProperties": false, "required": ["at", "zone", "for"], "properties": {
        "at": { "type": "string", "description": "When each window begins: minute, hour, day of the month, month and day of the week." },
        "zone": { "type": "string", "description": "The time zone, by its name in the IANA database." },
        "for": { "type": "string", "pattern": "^[0-9].*[a-z]$", "description": "How long each window is open." },
        "why": { "type": "string", "description": "The reason, for those who look at the queue meanwhile." },
    } } };
}

impl RawValue for Queues {
    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": raw::Queue::schema() })
    }

    fn check_at(&self, _: &Key, path: &str, places: &Places) -> Result<(), ConfigError> {
        let mut queues = self.iter();
        queues.try_for_each(|(name, queue)| queue.check_bounds(&format!("{path}.{name}"), places))
    }
}

impl RawValue for PathBuf {
    fn schema() -> Value {
        String::schema()
    }

    fn of_text(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn in_working_directory(self, host: &Backstop) -> Self {
        host.in_working_directory(&self)
    }
}

/// The elements of a list with commas.
fn split(text: &str) -> Texts {
    let elements = text.split(',').map(|element| element.trim().to_owned());
    elements.filter(|element| !element.is_empty()).collect()
}

/// A value by its name in a file.
fn by_name<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let name: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(name).map_err(|error| error.to_string())
}
