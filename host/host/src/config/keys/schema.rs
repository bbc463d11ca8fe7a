//! The JSON Schema of a `backstop.toml`, by which editors complete and check it.

#![expect(
    clippy::indexing_slicing,
    reason = "each value is an object, and takes any key"
)]

use serde_json::{Map, Value, json};

use super::{Key, RawValue, raw};

/// The schema of a file.
pub fn schema() -> Value {
    let mut schema = raw::Config::schema();
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "backstop.toml".into();
    schema
}

/// The schema of a table.
pub(in crate::config) fn schema_of(keys: &[Key]) -> Value {
    let keys = || keys.iter().filter(|key| key.is_in_files);
    let properties: Map<_, _> = keys().map(|key| (key.name(), key.property())).collect();
    let required: Vec<_> = keys()
        .filter(|key| key.is_required)
        .map(Key::name)
        .collect();
    let mut schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

impl Key {
    /// The schema of its value.
    fn property(&self) -> Value {
        let mut schema = (self.schema)();
        schema["description"] = self.description().into();
        if !self.default.is_empty() {
            let number = serde_json::from_str(self.default);
            schema["default"] = number.unwrap_or_else(|_| self.default.into());
        }
        let ranges = (self.ranges)(self.bounds).unwrap_or_default();
        if let [range] = ranges.as_slice()
            && schema["type"] == "integer"
        {
            let number = |size: u128| u64::try_from(size).map_or(Value::Null, Value::from);
            schema["minimum"] = number(*range.start());
            schema["maximum"] = number(*range.end());
        }
        schema
    }

    /// The first line of the sentence, without links.
    pub(super) fn description(&self) -> String {
        let line = self.sentence.trim().lines().next().unwrap_or_default();
        let without_link = |piece: &str| match piece.split_once("](") {
            Some((text, link)) => text.to_owned() + link.split_once(')').map_or("", |it| it.1),
            None => piece.to_owned(),
        };
        line.split('[').map(without_link).collect()
    }
}
