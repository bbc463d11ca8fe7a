//! JSON as Python's `json.dumps` writes it, ASCII only.

use std::fmt::Write;

use super::number;
use crate::json::Json;

/// How `json.dumps` is called.
#[derive(Clone, Copy)]
struct Style {
    comma: &'static str,
    colon: &'static str,
    is_sorted: bool,
}

/// `json.dumps(value, sort_keys=True)`, of which Powertools takes the hash: fields are sorted by code point.
pub(super) fn text(value: &Json) -> String {
    let style = Style {
        comma: ", ",
        colon: ": ",
        is_sorted: true,
    };
    written(value, style)
}

/// `json.dumps(value, separators=(",", ":"))`, the `to_string` of JMESPath.
#[cfg(feature = "jmespath")]
pub(crate) fn compact(value: &Json) -> String {
    let style = Style {
        comma: ",",
        colon: ":",
        is_sorted: false,
    };
    written(value, style)
}

fn written(value: &Json, style: Style) -> String {
    let mut text = String::new();
    write(value, style, &mut text);
    text
}

fn write(value: &Json, style: Style, text: &mut String) {
    match value {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(written) => text.push_str(&number::python(written)),
        Json::String(string) => write_string(string, text),
        Json::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                separate(place, style, text);
                write(value, style, text);
            }
            text.push(']');
        }
        Json::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            if style.is_sorted {
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            text.push('{');
            for (place, (name, value)) in fields.into_iter().enumerate() {
                separate(place, style, text);
                write_string(name, text);
                text.push_str(style.colon);
                write(value, style, text);
            }
            text.push('}');
        }
    }
}

fn separate(place: usize, style: Style, text: &mut String) {
    if place > 0 {
        text.push_str(style.comma);
    }
}

fn write_string(string: &str, text: &mut String) {
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
