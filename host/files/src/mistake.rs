//! A mistake in a TOML file, explained to its author: the line, the key, the value found and the value expected, in TOML's terms.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::mistake_words::{in_words, without_quotes};

/// A location in a text, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    line: usize,
    column: usize,
    shown: String,
    marked: usize,
    message: String,
}

impl Mistake {
    /// A mistake in the bytes `span` of `text`.
    pub fn new(text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let shown = rest.lines().next().unwrap_or_default();
        let column = chars(text.get(line_start..start).unwrap_or_default());
        let end = span.end.min(line_start + shown.len());
        let marked = chars(
            text.get(start..text.floor_char_boundary(end))
                .unwrap_or_default(),
        );
        Self {
            line: line_of(text, start),
            column: column + 1,
            shown: shown.to_owned(),
            marked: marked.max(1),
            message: message.into(),
        }
    }

    /// The mistake in `text` that caused a deserialization error.
    pub fn of(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or_default();
        let (file, _) = DeTable::parse_recoverable(text);
        let found = find(file.get_ref(), span.start);
        let is_date = matches!(found, Some((_, Some(DeValue::Datetime(_)))));
        let message = match without_quotes(text, error) {
            Some(word) => format!("a text needs quotes: \"{word}\""),
            None => in_words(error.message(), is_date),
        };
        let message = match found {
            Some((keys, _)) if !keys.is_empty() => format!("{}: {message}", keys.join(".")),
            Some(_) | None => message,
        };
        Self::new(text, span, message)
    }

    /// The same mistake, of an unknown key, with this advice in place of the keys that there are.
    pub fn advised(mut self, advice: &str) -> Self {
        if let Some(end) = self.message.find(", expected ") {
            self.message.truncate(end);
        }
        self.message = format!("{}: {advice}", self.message);
        self
    }
}

/// The key that an error is about, if it is about an unknown one.
pub fn unknown_key(error: &toml::de::Error) -> Option<&str> {
    let rest = error.message().strip_prefix("unknown field `")?;
    rest.split('`').next()
}

/// The line and the column of a value, from 1, by the keys that lead to it, such as `queues.orders.max-age`; of the table that is nearest to it if it is not there. `None` if even the first key is not.
pub fn place_of(text: &str, keys: &str) -> Option<(usize, usize)> {
    let (file, _) = DeTable::parse_recoverable(text);
    let start = span_of(file.get_ref(), keys)?.start;
    let found = Mistake::new(text, start..start, "");
    Some((found.line, found.column))
}

/// Where a key with a value is, or the value of the last key that is there.
fn span_of(table: &DeTable<'_>, keys: &str) -> Option<Range<usize>> {
    // A name may have dots itself.
    let (key, value, rest) = table.iter().find_map(|(key, value)| {
        let name: &str = key.get_ref();
        let rest = keys.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('.')).then_some((key, value, rest))
    })?;
    let within = match (value.get_ref(), rest.strip_prefix('.')) {
        (DeValue::Table(table), Some(rest)) => span_of(table, rest),
        _ => None,
    };
    within.or_else(|| Some(key.span()))
}

/// The number of the line that contains a byte, from 1.
pub fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = " ".repeat(self.line.to_string().len());
        let indent = " ".repeat(self.column - 1);
        let marks = "^".repeat(self.marked);
        write!(
            f,
            "line {}, column {}: {}\n{margin} |\n{} | {}\n{margin} | {indent}{marks}",
            self.line, self.column, self.message, self.line, self.shown
        )
    }
}

/// The keys that lead to this byte, and the value there. If the byte is within a key, the result has the keys before it and no value. In a list of tables, the keys start at the list's table.
fn find<'a>(table: &'a DeTable<'a>, byte: usize) -> Option<(Vec<String>, Option<&'a DeValue<'a>>)> {
    for (key, value) in table {
        if key.span().contains(&byte) {
            return Some((Vec::new(), None));
        }
        let of_this = |(mut keys, found): (Vec<String>, _)| {
            keys.insert(0, key.get_ref().to_string());
            (keys, found)
        };
        let within = match value.get_ref() {
            DeValue::Table(table) => find(table, byte).map(of_this),
            DeValue::Array(values) => {
                let mut tables = values.iter().filter_map(|value| value.get_ref().as_table());
                tables.find_map(|table| find(table, byte))
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => None,
        };
        if within.is_some() {
            return within;
        }
        if value.span().contains(&byte) {
            return Some(of_this((Vec::new(), Some(value.get_ref()))));
        }
    }
    None
}

/// Panics if a message names one of Rust's types, which means nothing to an author of TOML. For tests.
#[doc(hidden)]
pub fn names_no_type(message: &str) {
    let type_names = [
        "wanted ",
        "struct ",
        "enum ",
        "variant",
        "u8",
        "u16",
        "u32",
        "u128",
        "i128",
        "u64",
        "usize",
        "f64",
        "i64",
        "borrowed",
        "a sequence",
        "invalid type",
        "invalid value",
        "nonzero",
        "tuple",
        "Raw",
        "map,",
        "floating point",
        "integer `",
        "string \"",
        "boolean",
        "expected a string",
    ];
    for name in type_names {
        assert!(!message.contains(name), "{name:?} is in: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_keys() {
        let text = "a = 1\n[queues.\"or.ders\"]\nb = 2\n c = { d = 3 }\n";
        for (keys, expected) in [
            ("a", Some((1, 1))),
            ("queues.or.ders.b", Some((3, 1))),
            ("queues.or.ders.c.d", Some((4, 8))),
            ("queues.or.ders.c.none", Some((4, 2))),
            ("queues.or.ders.none.x", Some((2, 9))),
            ("queues.or", Some((2, 2))),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(place_of(text, keys), expected, "{keys}");
        }
    }

    #[test]
    fn the_location_is_shown_with_its_line() {
        let text = "a = 1\né = \"zwei\"\nlast = 3";
        let start = text.find('"').unwrap();
        for (span, expected) in [
            (0..1, "line 1, column 1: odd\n  |\n1 | a = 1\n  | ^"),
            (
                start..start + 6,
                "line 2, column 5: odd\n  |\n2 | é = \"zwei\"\n  |     ^^^^^^",
            ),
            (
                start..text.len(),
                "line 2, column 5: odd\n  |\n2 | é = \"zwei\"\n  |     ^^^^^^",
            ),
            (
                text.len()..text.len(),
                "line 3, column 9: odd\n  |\n3 | last = 3\n  |         ^",
            ),
        ] {
            assert_eq!(Mistake::new(text, span, "odd").to_string(), expected);
        }
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "deserialized and not used")]
    struct Sample {
        number: Option<u32>,
        from_1: Option<std::num::NonZeroU32>,
        text: Option<String>,
        switch: Option<bool>,
        fraction: Option<f64>,
        words: Option<Vec<String>>,
        path: Option<std::path::PathBuf>,
        pair: Option<(u8, u8)>,
        inner: Option<Box<Sample>>,
        many: Option<Vec<Sample>>,
    }

    #[test]
    fn a_mistake_is_explained_by_its_key_and_in_tomls_terms() {
        for (text, expected) in [
            (
                "number = \"5\"",
                "number: expected a whole number from 0, not the text \"5\"",
            ),
            (
                "number = -5",
                "number: expected a whole number from 0, not the number -5",
            ),
            (
                "number = 1.5",
                "number: expected a whole number from 0, not the number 1.5",
            ),
            (
                "number = 99999999999999999999",
                "number: expected at most 4294967295, not the number 99999999999999999999",
            ),
            (
                "number = 2026-01-01",
                "number: expected a whole number from 0, not a date",
            ),
            (
                "from_1 = 0",
                "from_1: expected a whole number from 1, not the number 0",
            ),
            (
                "text = 5",
                "text: expected a text in quotes, not the number 5",
            ),
            (
                "text = [\"a\"]",
                "text: expected a text in quotes, not a list",
            ),
            (
                "switch = \"yes\"",
                "switch: expected true or false, not the text \"yes\"",
            ),
            ("fraction = true", "fraction: expected a number, not true"),
            (
                "words = \"a\"",
                "words: expected a list, such as [\"a\", \"b\"], not the text \"a\"",
            ),
            (
                "words = [\"a\", 5]",
                "words: expected a text in quotes, not the number 5",
            ),
            ("path = {}", "path: expected a path in quotes, not a table"),
            ("pair = [1]", "pair: expected a list of two, not 1 of them"),
            ("inner = 5", "inner: expected a table, not the number 5"),
            (
                "inner.inner.text = 5",
                "inner.inner.text: expected a text in quotes, not the number 5",
            ),
            (
                "[inner.inner]\ntext = 5",
                "inner.inner.text: expected a text in quotes, not the number 5",
            ),
            (
                "[[many]]\n[[many]]\ninner.text = 5",
                "inner.text: expected a text in quotes, not the number 5",
            ),
            (
                "inner = { odd = 1 }",
                "inner: unknown key `odd`, expected one of `number`, ",
            ),
            (
                "inner = { fractoin = 1.5 }",
                "inner: unknown key `fractoin` (did you mean `fraction`?), expected one of `number`, ",
            ),
            (
                "text = full-jitter",
                "text: a text needs quotes: \"full-jitter\"",
            ),
            ("inner.text = 3h", "inner.text: a text needs quotes: \"3h\""),
        ] {
            let error = toml::from_str::<Sample>(text).unwrap_err();
            let mistake = Mistake::of(text, &error);
            assert!(
                mistake.message.starts_with(expected),
                "{text}: {}",
                mistake.message
            );
            names_no_type(&mistake.to_string());
        }
    }
}
