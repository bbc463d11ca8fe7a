//! Values that are written as a text, or as a table that says more.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

/// Deserializes a text or a table. `expected` describes both in an error, which a text without a value is, too.
pub fn text_or_table<'de, D: Deserializer<'de>, Table: Deserialize<'de>, T>(
    deserializer: D,
    expected: &'static str,
    of_text: fn(&str) -> Option<T>,
    of_table: fn(Table) -> T,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(TextOrTable {
        expected,
        of_text,
        of_table,
    })
}

struct TextOrTable<Table, T> {
    expected: &'static str,
    of_text: fn(&str) -> Option<T>,
    of_table: fn(Table) -> T,
}

impl<'de, Table: Deserialize<'de>, T> Visitor<'de> for TextOrTable<Table, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.of_text)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(table)).map(self.of_table)
    }
}
