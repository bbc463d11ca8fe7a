//! What there is to know of a key: [`raw`](super::raw) has an entry for each, and everything else that names it comes from there.

use std::path::PathBuf;
use std::time::Duration;

use backstop_core::settings::parse_pairs;
use backstop_files::values::{parse_number, parse_span};
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde_json::{Map, Value, json};

use super::raw::{self, Bytes, Command, Queues, SettingsTable, Span, Table, Texts};
use super::{
    ConfigError, FunctionHandler, OnMissingKey, OnUnknown, Places, RecordAttributes, RecordFormat,
    Variables, value,
};
use crate::Backstop;
use crate::hold::HoldMode;

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The table that it is in, such as `queues.NAME`; empty at the top level.
    pub table: &'static str,
    /// Its field, such as `max_polls` for `max-polls`.
    pub(super) field: &'static str,
    /// What it says, in the documentation of its method.
    pub(super) sentence: &'static str,
    /// What `configuration.md` says in place of the sentence.
    pub(super) row: &'static str,
    /// The value that it has if nobody sets it, as in a file; empty if there is none.
    pub default: &'static str,
    /// What `configuration.md` says in place of the default.
    pub(super) shown: &'static str,
    /// The least and the largest number.
    pub(super) range: Option<(u32, u32)>,
    /// The method of the builder that sets it.
    pub(super) method: &'static str,
    /// The environment variable of the Lambda retry handler that sets it.
    pub(super) variable: &'static str,
    /// The flag of `backstop run` that sets it.
    pub flag: Option<Flag>,
    /// Whether it is in a file, and not for programs alone.
    pub(super) is_in_files: bool,
    /// Sets it by the values of its flag.
    pub(super) apply: Option<Apply>,
    /// Checks a value of its flag.
    pub(super) check: Option<Check>,
    /// Whether a file has to have it.
    pub(super) is_required: bool,
    pub(super) schema: fn() -> Value,
}

/// Sets a value by the texts that a flag was given.
pub(super) type Apply = fn(Backstop, &[String]) -> Result<Backstop, String>;

/// Checks a text that a flag was given.
pub(super) type Check = fn(&str) -> Result<(), String>;

/// A flag of `backstop run`.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What its value is called.
    pub value: &'static str,
    /// What it says. The default of the key is added.
    pub help: &'static str,
    /// The flag that it means nothing without.
    pub requires: Option<&'static str>,
    /// An environment variable with its value.
    pub variable: Option<&'static str>,
    /// Whether it overrides a file. Others are for a queue that is configured by flags.
    pub overrides_file: bool,
    /// Whether it may be repeated.
    pub repeats: bool,
}

impl Flag {
    pub(super) const fn new(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self {
            name,
            value,
            help,
            requires: None,
            variable: None,
            overrides_file: false,
            repeats: false,
        }
    }

    pub(super) const fn requires(mut self, flag: &'static str) -> Self {
        self.requires = Some(flag);
        self
    }

    pub(super) const fn or_variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    pub(super) const fn overriding_file(mut self) -> Self {
        self.overrides_file = true;
        self
    }

    pub(super) const fn repeated(mut self) -> Self {
        self.repeats = true;
        self
    }
}

impl Key {
    pub(super) const fn new(
        table: &'static str,
        field: &'static str,
        sentence: &'static str,
        (is_required, schema): (bool, fn() -> Value),
    ) -> Self {
        Self {
            table,
            field,
            sentence,
            row: "",
            default: "",
            shown: "",
            range: None,
            method: "",
            variable: "",
            flag: None,
            is_in_files: true,
            apply: None,
            check: None,
            is_required,
            schema,
        }
    }

    /// Its name in a file, such as `max-polls`.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// Its full name, such as `queues.NAME.max-polls`.
    pub(super) fn path(&self) -> String {
        match self.table {
            "" => self.name(),
            table => format!("{table}.{}", self.name()),
        }
    }

    /// Checks a value of the flag.
    pub fn check(&self, text: &str) -> Result<(), String> {
        match (self.range, self.check) {
            (Some((least, most)), _) => parse_number_within(text, least, most).map(drop),
            (None, Some(check)) => check(text),
            (None, None) => Ok(()),
        }
    }

    /// Sets the values of the flag.
    pub fn apply(&self, host: Backstop, texts: &[String]) -> Result<Backstop, String> {
        match self.apply {
            Some(apply) => apply(host, texts),
            None => Ok(host),
        }
    }

    /// Checks a number against the range.
    pub(super) fn check_range(
        &self,
        place: &str,
        number: u64,
        why: &str,
    ) -> Result<(), ConfigError> {
        match self.range {
            Some((least, most)) if !(u64::from(least)..=u64::from(most)).contains(&number) => {
                let most = match most {
                    u32::MAX => String::new(),
                    most => format!(" to {most}"),
                };
                Err(value(
                    place,
                    format!("expected a whole number from {least}{most}{why}"),
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Its row in `configuration.md`, if it has one.
    fn row(&self) -> Option<String> {
        if [self.row, self.shown, self.default] == [""; 3] {
            return None;
        }
        let meaning = match self.row {
            "" => without_capital(self.sentence.trim().trim_end_matches('.')),
            row => row.to_owned(),
        };
        // A table of one key is written as that key.
        let name = if self.table == "decisions" {
            self.path()
        } else {
            self.name()
        };
        let default = if self.shown.is_empty() {
            self.default
        } else {
            self.shown
        };
        Some(format!("| `{name}` | {meaning} | {default} |").replace("|  |", "| |"))
    }
}

/// All keys.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    [
        raw::Queue::KEYS,
        raw::Handler::KEYS,
        raw::Idempotency::KEYS,
        raw::Policies::KEYS,
        raw::Rollback::KEYS,
        raw::Config::KEYS,
        raw::Decisions::KEYS,
        raw::Limits::KEYS,
        raw::CompileLimits::KEYS,
        raw::Lambda::KEYS,
    ]
    .into_iter()
    .flatten()
}

/// The rows of a table in `configuration.md`.
pub fn rows_of(table: &str) -> Vec<String> {
    keys()
        .filter(|key| key.table == table)
        .filter_map(Key::row)
        .collect()
}

/// The JSON Schema of a `backstop.toml`, by which editors complete and check it.
pub fn schema() -> Value {
    let mut schema = raw::Config::schema();
    if let Some(object) = schema.as_object_mut() {
        object.insert(
            "$schema".to_owned(),
            "http://json-schema.org/draft-07/schema#".into(),
        );
        object.insert("title".to_owned(), "backstop.toml".into());
    }
    schema
}

/// The schema of a table.
pub(super) fn schema_of(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in keys.iter().filter(|key| key.is_in_files) {
        let mut schema = (key.schema)();
        if let Some(object) = schema.as_object_mut() {
            object.insert("description".to_owned(), key.description().into());
            if !key.default.is_empty() {
                let default = serde_json::from_str(key.default);
                object.insert(
                    "default".to_owned(),
                    default.unwrap_or_else(|_| key.default.into()),
                );
            }
            if let Some((least, most)) = key.range {
                object.insert("minimum".to_owned(), least.into());
                object.insert("maximum".to_owned(), most.into());
            }
        }
        properties.insert(key.name(), schema);
        if key.is_required {
            required.push(key.name());
        }
    }
    let mut schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if let Some(object) = schema.as_object_mut()
        && !required.is_empty()
    {
        object.insert("required".to_owned(), required.into());
    }
    schema
}

impl Key {
    /// The first line of the sentence, without links.
    fn description(&self) -> String {
        let line = self.sentence.trim().lines().next().unwrap_or_default();
        let mut plain = String::new();
        let mut rest = line;
        while let Some((before, link)) = rest.split_once('[') {
            plain.push_str(before);
            let Some((text, after)) = link.split_once(']') else {
                rest = link;
                break;
            };
            plain.push_str(text);
            rest = match after
                .strip_prefix('(')
                .and_then(|after| after.split_once(')'))
            {
                Some((_, after)) => after,
                None => after,
            };
        }
        plain + rest
    }
}

/// The type of a key's value in the raw form.
pub(super) trait RawValue: Sized {
    /// Whether a file has to say it, and what it may say.
    const IN_FILES: (bool, fn() -> Value) = (true, Self::schema);

    /// What a file may say.
    fn schema() -> Value;

    /// Reads the value of an environment variable.
    fn of_variable(text: &str) -> Result<Self, String> {
        Err(format!("`{text}` is not a value of a variable"))
    }
}

/// A sentence as a part of another one. A name keeps its capitals.
fn without_capital(sentence: &str) -> String {
    let word = sentence.split(' ').next().unwrap_or_default();
    let (first, rest) = sentence.split_at(sentence.ceil_char_boundary(1));
    if word.chars().skip(1).any(char::is_uppercase) {
        sentence.to_owned()
    } else {
        format!("{}{rest}", first.to_lowercase())
    }
}

/// Overrides a value by its environment variable, if it has one that is set.
pub(super) fn read<T: RawValue>(
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
        *slot = T::of_variable(&text).map_err(|expected| value(key.variable, expected))?;
    }
    Ok(())
}

impl<T: RawValue> RawValue for Option<T> {
    const IN_FILES: (bool, fn() -> Value) = (false, T::schema);

    fn schema() -> Value {
        T::schema()
    }

    fn of_variable(text: &str) -> Result<Self, String> {
        T::of_variable(text).map(Some)
    }
}

/// Implements [`RawValue`] by a schema, and a variable's text if the type can be one.
macro_rules! values {
    ($($type:ty: $schema:tt $(, $text:ident => $value:expr)?;)*) => {$(
        impl RawValue for $type {
            fn schema() -> Value {
                json!($schema)
            }
            $(
                fn of_variable($text: &str) -> Result<Self, String> {
                    $value
                }
            )?
        }
    )*};
}

values! {
    String: { "type": "string" }, text => Ok(text.to_owned());
    PathBuf: { "type": "string" }, text => Ok(text.into());
    Texts: { "type": "array", "items": { "type": "string" } }, text => Ok(split(text));
    bool: { "type": "boolean" }, text => text.trim().parse().map_err(|_| format!("`{text}` is neither true nor false"));
    u32: { "type": "integer", "minimum": 0 }, text => match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("`{text}` is not a whole number from 1")),
    };
    u64: { "type": "integer", "minimum": 0 };
    usize: { "type": "integer", "minimum": 0 };
    Span: { "type": "string", "pattern": "^[0-9].*[a-z]$" }, text => parse_span(text.trim()).map(Span).map_err(|error| error.to_string());
    Bytes: { "type": ["string", "integer"] };
    HoldMode: { "enum": ["visibility", "resend", "auto"] }, text => text.parse::<Self>().map_err(|error| error.to_string());
    RecordFormat: { "enum": ["python", "typescript"] };
    OnUnknown: { "enum": ["retry", "dead-letter"] };
    OnMissingKey: { "enum": ["error", "not-idempotent"] };
    RecordAttributes: { "type": "object", "additionalProperties": { "type": "string" } };
    SettingsTable: { "type": "object", "additionalProperties": { "type": ["string", "number", "boolean", "array"] } }, text => parse_pairs(text).map(|pairs| Self(pairs.into())).map_err(|error| error.to_string());
    Command: { "type": ["string", "array"], "items": { "type": "string" } };
    FunctionHandler: {};
    raw::DeadLetterQueues: { "type": ["string", "object"], "additionalProperties": { "type": "string" } }, text => Self::parse(text);
    raw::Policy: { "type": ["string", "object"] }, text => Ok(Self::Single(text.to_owned()));
}

impl RawValue for Queues {
    const IN_FILES: (bool, fn() -> Value) = (false, Self::schema);

    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": raw::Queue::schema() })
    }
}

/// The elements of a list with commas.
fn split(text: &str) -> Texts {
    let elements = text.split(',').map(|element| element.trim().to_owned());
    elements.filter(|element| !element.is_empty()).collect()
}

fn parse_number_within(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.trim().parse().ok();
    let within = number.filter(|number| (least..=most).contains(number));
    within.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
}

/// The value of a method, as a flag gives it.
pub(super) trait Given: Sized {
    fn given(texts: &[String]) -> Result<Self, String> {
        Self::of_text(texts.last().map_or("", String::as_str))
    }

    fn of_text(text: &str) -> Result<Self, String>;
}

macro_rules! given {
    ($($type:ty: $text:ident => $value:expr;)*) => {$(
        impl Given for $type {
            fn of_text($text: &str) -> Result<Self, String> {
                $value
            }
        }
    )*};
}

given! {
    String: text => Ok(text.to_owned());
    PathBuf: text => Ok(text.into());
    u32: text => parse_number(text);
    u64: text => parse_number(text);
    usize: text => parse_number(text);
    bool: text => text.parse().map_err(|_| "expected true or false".to_owned());
    Duration: text => parse_span(text).map_err(|error| error.to_string());
    HoldMode: text => text.parse::<Self>().map_err(|error| error.to_string());
    RecordFormat: text => by_name(text);
    OnUnknown: text => by_name(text);
    OnMissingKey: text => by_name(text);
}

impl Given for Texts {
    fn given(texts: &[String]) -> Result<Self, String> {
        Ok(texts.to_vec())
    }

    fn of_text(text: &str) -> Result<Self, String> {
        Ok(vec![text.to_owned()])
    }
}

/// A value by its name in a file.
fn by_name<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let name: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(name).map_err(|error| error.to_string())
}

/// A table of keys: see [`raw`](super::raw). Each entry has
///
/// - what the key says: the documentation of its method, and its row in `configuration.md` unless it has a `row` of its own,
/// - its name and type, and after `=` its default as in a file,
/// - after `=>` the method of the builder that sets it, and the type of its argument,
/// - what else there is to know of it: fields of [`Key`].
macro_rules! table {
    (
        $(#[doc = $about:literal])*
        $table:ident at $at:literal, $expects:literal;
        $(
            $(#[doc = $doc:literal])*
            $(#[serde($serde:ident)])?
            $key:ident: $type:ty $(= $default:literal)? $(=> $method:ident($given:ident))? {
                $($attribute:ident: $value:expr),* $(,)?
            }
        )*
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
        pub(crate) struct $table {
            $(
                $(#[doc = $doc])*
                $(#[serde($serde)])?
                pub(crate) $key: $type,
            )*
        }

        only_tables! {
            $table: $expects;
        }

        impl Table for $table {
            const KEYS: &'static [Key] = &[$(Key {
                $($attribute: $value,)*
                ..Key {
                    $(default: $default,)?
                    $(
                        method: stringify!($method),
                        apply: Some(|host, texts| Ok(host.$method(<given_type!($given)>::given(texts)?))),
                        check: Some(|text| <given_type!($given)>::of_text(text).map(drop)),
                    )?
                    ..Key::new($at, stringify!($key), concat!($($doc, "\n"),*), <$type as RawValue>::IN_FILES)
                }
            }),*];

            fn override_by(
                &mut self,
                variable: Variables<'_>,
                places: &mut Places,
            ) -> Result<(), ConfigError> {
                let mut keys = Self::KEYS.iter();
                $(
                    if let Some(key) = keys.next() {
                        read(key, &mut self.$key, variable, places)?;
                    }
                )*
                Ok(())
            }
        }

        impl RawValue for $table {
            fn schema() -> serde_json::Value {
                schema_of(Self::KEYS)
            }
        }

        $(
            method! { $table $key [$($doc)*] [$($default)?] $($method($given))? }
        )*
    };
}

/// The method of the builder that sets a key.
macro_rules! method {
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?]) => {};
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident(String)) => {
        method! { @ [$($doc)*] [$($default)?] $method [] [impl Into<String>] self value {
            let value = value.into();
            $table::change(self, stringify!($key), |it| it.$key = Some(value.clone()))
        } }
    };
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident(Path)) => {
        method! { @ [$($doc)*] [$($default)?] $method [] [impl AsRef<Path>] self value {
            let value = self.in_working_directory(value.as_ref());
            $table::change(self, stringify!($key), |it| it.$key = Some(value.clone()))
        } }
    };
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident(Texts)) => {
        method! { @ [$($doc)*] [$($default)?] $method [T: Into<String>] [impl IntoIterator<Item = T>] self value {
            let value: Texts = value.into_iter().map(Into::into).collect();
            $table::change(self, stringify!($key), |it| it.$key = Some(value.clone()))
        } }
    };
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident(Duration)) => {
        method! { @ [$($doc)*] [$($default)?] $method [] [Duration] self value {
            $table::change(self, stringify!($key), |it| it.$key = Some(Span(value)))
        } }
    };
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident(Bytes)) => {
        method! { @ [$($doc)*] [$($default)?] $method [] [usize] self value {
            $table::change(self, stringify!($key), |it| it.$key = Some(Bytes(value)))
        } }
    };
    ($table:ident $key:ident [$($doc:literal)*] [$($default:literal)?] $method:ident($given:ident)) => {
        method! { @ [$($doc)*] [$($default)?] $method [] [$given] self value {
            $table::change(self, stringify!($key), |it| it.$key = Some(value))
        } }
    };
    (@ [$($doc:literal)*] [$($default:literal)?] $method:ident [$($generics:tt)*] [$($type:tt)*] $self:ident $value:ident $body:block) => {
        impl Backstop {
            $(#[doc = $doc])*
            $(#[doc = ""] #[doc = concat!("The default is `", $default, "`.")])?
            pub fn $method<$($generics)*>($self, $value: $($type)*) -> Self $body
        }
    };
}

/// The type that a flag's text is parsed as for a method with this argument.
macro_rules! given_type {
    (Path) => {
        PathBuf
    };
    (Bytes) => {
        usize
    };
    ($type:ident) => {
        $type
    };
}

pub(super) use {given_type, method, table};
