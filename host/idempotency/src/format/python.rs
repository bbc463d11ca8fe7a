//! JSON as Python's `json.dumps` writes it, ASCII only.

use std::fmt::Write;

use super::number;
use super::style::Style;
use crate::json::Json;

const SORTED: Style = Style {
    comma: ", ",
    colon: ": ",
    order: sorted,
    number: number::python,
    string: quoted,
};

/// `json.dumps(value, sort_keys=True)`, of which Powertools takes the hash: fields are sorted by code point.
pub(super) fn text(value: &Json) -> String {
    SORTED.text(value)
}

/// `json.dumps(value, separators=(",", ":"))`, the `to_string` of JMESPath.
#[cfg(feature = "jmespath")]
pub(crate) fn compact(value: &Json) -> String {
    let style = Style {
        comma: ",",
        colon: ":",
        order: |fields| fields.iter().collect(),
        ..SORTED
    };
    style.text(value)
}

fn sorted(fields: &[(String, Json)]) -> Vec<&(String, Json)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    fields
}

fn quoted(string: &str) -> String {
    let mut text = String::with_capacity(string.len() + 2);
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_python_writes() {
        for (given, expected) in [
            (
                r#"{"b":1,"B":2,"a":[1.0,null,true]}"#,
                r#"{"B": 2, "a": [1.0, null, true], "b": 1}"#,
            ),
            (
                r#"{"\uffff":1,"😀":2}"#,
                r#"{"\uffff": 1, "\ud83d\ude00": 2}"#,
            ),
            ("\"é\u{7f}\\u0001\\n\\\"\"", r#""\u00e9\u007f\u0001\n\"""#),
            ("[]", "[]"),
            ("{}", "{}"),
        ] {
            assert_eq!(text(&Json::parse(given).unwrap()), expected, "{given}");
        }
    }
}
