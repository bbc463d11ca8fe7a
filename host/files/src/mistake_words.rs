//! What the TOML deserializer says, in TOML's terms: it names Rust's types, and lists what there is without what was meant.

use crate::nearest::nearest;

/// A word where a value has to be, which was meant as a text.
pub(crate) fn without_quotes<'a>(text: &'a str, error: &toml::de::Error) -> Option<&'a str> {
    let messages = ["string values must be quoted", "invalid boolean"];
    if !messages.iter().any(|it| error.message().starts_with(it)) {
        return None;
    }
    let word = text.get(error.span()?)?.trim();
    (!word.is_empty() && !word.contains(['"', '\'', '\\', '\n'])).then_some(word)
}

/// What the deserializer says of an unknown word and those that there are, with the one that was meant, if that is clear.
fn suggested(rest: &str) -> String {
    /// Shorter words are near to many.
    const SHORT: usize = 4;
    let mut words = rest.split('`').skip(1).step_by(2);
    let word = words.next().unwrap_or_default();
    let meant = nearest(word, words).filter(|_| word.chars().count() > SHORT);
    match meant.zip(rest.split_once(", expected ")) {
        Some((meant, (word, known))) => {
            format!("{word} (did you mean `{meant}`?), expected {known}")
        }
        None => rest.to_owned(),
    }
}

/// A message of the deserializer in TOML's terms. The original names Rust's types.
pub(crate) fn in_words(message: &str, is_date: bool) -> String {
    // The message for an enum.
    if message == "wanted string or table" {
        return "expected a text in quotes".to_owned();
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        return format!("unknown key {}", suggested(rest));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        return format!("unknown value {}", suggested(rest));
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("the key {rest} is missing");
    }
    if let Some(rest) = message.strip_prefix("duplicate field ") {
        return format!("the key {rest} comes twice");
    }
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let mismatch = kinds.iter().find_map(|kind| message.strip_prefix(kind));
    match mismatch.and_then(|it| it.rsplit_once(", expected ")) {
        Some((found, wanted)) => {
            let found = if is_date {
                "a date".to_owned()
            } else {
                found_in_words(found)
            };
            match largest(wanted).filter(|largest| is_above(&found, *largest)) {
                Some(largest) => format!("expected at most {largest}, not {found}"),
                None => format!("expected {}, not {found}", wanted_in_words(wanted)),
            }
        }
        None => message.to_owned(),
    }
}

/// The largest value of an integer type, if TOML has larger numbers.
fn largest(wanted: &str) -> Option<u32> {
    match wanted {
        "u8" => Some(u8::MAX.into()),
        "u16" => Some(u16::MAX.into()),
        "u32" => Some(u32::MAX),
        _ => None,
    }
}

fn is_above(found: &str, largest: u32) -> bool {
    let number = found.strip_prefix("the number ");
    number
        .and_then(|number| number.parse::<i128>().ok())
        .is_some_and(|number| number > largest.into())
}

/// The value that the deserializer found, in TOML's terms.
fn found_in_words(found: &str) -> String {
    // A small number is `5`, a large one is `5` as i128.
    let bare = |rest: &str| {
        let rest = rest.trim_start_matches('`');
        rest.split('`').next().unwrap_or(rest).to_owned()
    };
    if let Some(number) = found
        .strip_prefix("integer ")
        .or_else(|| found.strip_prefix("floating point "))
    {
        return format!("the number {}", bare(number));
    }
    if let Some(switch) = found.strip_prefix("boolean ") {
        return bare(switch);
    }
    match found.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        _ if found.starts_with("map") || found.starts_with("struct") => "a table".to_owned(),
        _ if found.starts_with("sequence") => "a list".to_owned(),
        _ if found.bytes().all(|byte| byte.is_ascii_digit()) => format!("{found} of them"),
        _ => found.to_owned(),
    }
}

/// The type that the deserializer expects, in TOML's terms. The descriptions of our own types stay as they are.
fn wanted_in_words(wanted: &str) -> &str {
    match wanted {
        "a string" => "a text in quotes",
        "path string" => "a path in quotes",
        "a boolean" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "f64" => "a number",
        "a sequence" => "a list, such as [\"a\", \"b\"]",
        "a map" => "a table, such as { name = \"value\" }",
        _ if wanted.starts_with("a nonzero") => "a whole number from 1",
        _ if wanted.starts_with("a tuple") => "a list of two",
        _ if wanted.starts_with("struct ") => "a table",
        _ => wanted,
    }
}
