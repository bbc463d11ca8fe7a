//! JSON: put together for programs, and laid out for people.

use std::fmt::Write as _;

use backstop_core::text::{Escaping, harmless};
use serde_json::Value;

/// The fields of two objects in one.
pub(crate) fn joined(mut object: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
    object
}

/// The deepest level of a JSON document that is laid out.
const DEEPEST: usize = 40;

/// A text for people: JSON laid out, anything else as it is; control characters made visible.
pub(crate) fn readable(text: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) if text.trim_start().starts_with(['{', '[']) => laid_out(text),
        Ok(_) | Err(_) => harmless(text),
    }
}

/// The text of a JSON document with line breaks and indentation. Names keep their order, numbers their digits.
fn laid_out(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = json.chars().peekable();
    // Deeper levels stay on one line: their indentation could be larger than the document by far.
    let indent = |text: &mut String, depth: usize| {
        if depth <= DEEPEST {
            text.push('\n');
            (0..depth).for_each(|_| text.push_str("  "));
        }
    };
    while let Some(c) = characters.next() {
        if in_string {
            let _ = Escaping(&mut text).write_char(c);
            in_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            ' ' | '\n' | '\r' | '\t' => {}
            '{' | '[' => {
                text.push(c);
                while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if let Some(end) = characters.next_if(|c| matches!(c, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    indent(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                indent(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                indent(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c => {
                in_string = c == '"';
                text.push(c);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_with_its_own_names_and_numbers() {
        let text = readable(
            "{\"b\":1.10,\"a\":[],\"c\":{\"x\":[10000000000000000000001,\"{,}\\\"\u{9b}\"]} }",
        );
        let expected = "{\n  \"b\": 1.10,\n  \"a\": [],\n  \"c\": {\n    \"x\": [\n      10000000000000000000001,\n      \"{,}\\\"\\u{9b}\"\n    ]\n  }\n}";
        assert_eq!(text, expected);
        assert_eq!(readable("no \u{1b}[2J JSON\n{"), "no \\u{1b}[2J JSON\n{");
        assert_eq!(readable("7"), "7");
        let deep = format!("{}{}", "[".repeat(1 << 19), "]".repeat(1 << 19));
        assert!(readable(&deep).len() < deep.len() + 10_000);
    }
}
