//! Text from letters, safe to print on a terminal.

use std::fmt::Write as _;

use backstop::queue::Attribute;
use backstop_core::text::{Escaping, harmless, one_line};
use backstop_dead_letters::{Letter, Source};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::output::println;

/// The deepest level of a JSON document that is laid out.
const DEEPEST: usize = 40;

/// Prints a JSON value. Control characters that JSON allows in strings are escaped, so that they reach no terminal.
pub(crate) fn print_json(value: &Value) {
    println!("{}", json_text(value));
}

/// The JSON text of a value without control characters and without characters that change the direction of text.
pub(crate) fn json_text(value: &Value) -> String {
    let text = value.to_string();
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        let is_plain = c.is_ascii() && !c.is_ascii_control();
        if is_plain || one_line(c.encode_utf8(&mut [0; 4])).chars().eq([c]) {
            escaped.push(c);
        } else {
            // All of them are in the Basic Multilingual Plane.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        }
    }
    escaped
}

/// Prints ids, each on a line of its own: several would not fit into a terminal with 80 columns.
pub(crate) fn print_samples(indent: usize, ids: &[String]) {
    for (number, id) in ids.iter().enumerate() {
        let start = if number == 0 { "such as" } else { "" };
        println!("{:indent$}{start:7} {}", "", one_line(id));
    }
}

/// At most this many characters of a text, as one line.
pub(crate) fn short(text: &str, characters: usize) -> String {
    let mut shown: String = text.chars().take(characters).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    one_line(&shown)
}

/// A body for people: JSON laid out, anything else as it is; control characters made visible.
pub(crate) fn body(body: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(body) {
        Ok(_) if body.trim_start().starts_with(['{', '[']) => laid_out(body),
        Ok(_) | Err(_) => harmless(body),
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

/// What is known of a letter, as JSON; with its body and attributes if `whole`.
pub(crate) fn letter(letter: &Letter, queue: &str, whole: bool) -> Value {
    let message = &letter.message;
    let source = letter.source.as_ref().map(|source| match source {
        Source::Queue(arn) => json!({"queue": arn}),
        Source::Function(arn) => json!({"function": arn}),
        Source::Topic(arn) => json!({"topic": arn}),
    });
    let fingerprint = letter.fingerprint();
    let mut shown = json!({
        "id": message.id,
        "queue": queue,
        "origin": letter.origin,
        "source": source,
        "original-id": letter.original_id,
        "reason": letter.reason,
        "class": letter.class,
        "error": letter.error,
        "policy": letter.policy,
        "attempt": letter.attempt,
        "first-sent": letter.first_sent,
        "dead-since": letter.dead_since,
        "sent": message.sent,
        "receives": message.receive_count,
        "group": message.group,
        "bytes": message.size(),
        "fingerprint": {"id": fingerprint.id(), "text": fingerprint.text()},
    });
    if whole && let Some(fields) = shown.as_object_mut() {
        fields.insert("body".to_owned(), json!(&*message.body));
        let attributes = message.attributes.iter();
        let attributes: Map<_, _> = attributes
            .map(|(name, value)| (name.clone(), attribute(value)))
            .collect();
        fields.insert("attributes".to_owned(), attributes.into());
        fields.insert(
            "deduplication-id".to_owned(),
            json!(message.deduplication_id),
        );
        fields.insert("trace-header".to_owned(), json!(message.trace_header));
        fields.insert("sender".to_owned(), json!(message.sender));
    }
    shown
}

fn attribute(value: &Attribute) -> Value {
    match value {
        Attribute::Text { data_type, value } => json!({"type": data_type, "value": value}),
        Attribute::Binary { data_type, value } => {
            json!({"type": data_type, "base64": STANDARD.encode(value)})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_with_its_own_names_and_numbers() {
        let text = body(
            "{\"b\":1.10,\"a\":[],\"c\":{\"x\":[10000000000000000000001,\"{,}\\\"\u{9b}\"]} }",
        );
        let expected = "{\n  \"b\": 1.10,\n  \"a\": [],\n  \"c\": {\n    \"x\": [\n      10000000000000000000001,\n      \"{,}\\\"\\u{9b}\"\n    ]\n  }\n}";
        assert_eq!(text, expected);
        assert_eq!(body("no \u{1b}[2J JSON\n{"), "no \\u{1b}[2J JSON\n{");
        assert_eq!(body("7"), "7");
        let deep = format!("{}{}", "[".repeat(1 << 19), "]".repeat(1 << 19));
        assert!(body(&deep).len() < deep.len() + 10_000);
    }

    #[test]
    fn printed_json_has_no_control_characters_and_means_the_same() {
        let value = json!({"a": "\u{9b}31m\u{7f}\u{202e}é\n"});
        let text = json_text(&value);
        assert_eq!(text, "{\"a\":\"\\u009b31m\\u007f\\u202eé\\n\"}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn a_long_text_is_cut_and_has_one_line() {
        assert_eq!(short("a\nb", 9), "a\\nb");
        assert_eq!(short("äöü", 2), "äö…");
    }
}
