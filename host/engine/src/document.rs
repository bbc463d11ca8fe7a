//! Finds JSON pointers in a text. The result is the text as it is in the body, except for halves of surrogate pairs, and no part is parsed twice.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use backstop_json::Entries;
use backstop_json::pointer::{self, ReferenceToken};
use serde_json::value::RawValue;

/// The maximum nesting of arrays and objects. A deeper text does not count as JSON, so that no sender can make the parsers of other languages recurse deeper.
const DEPTH: usize = 127;

/// The maximum number of bytes that one decision may parse. Finding a pointer parses the body once, and each array and object on the path once.
const MAX_PARSED: usize = 64 << 20;

/// A decision parsed more than 64 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("parsed more than {MAX_PARSED} bytes of the payload")]
pub(super) struct TooMuch;

/// The structure of a text, as far as it was parsed. Each call passes the same text.
#[derive(Debug)]
pub(super) struct Document {
    /// The text in its place, if that has halves of surrogate pairs: see [`well_formed`].
    mended: Option<String>,
    /// The range of its value. `None` if it is not JSON.
    root: Option<Range<usize>>,
    /// The values that were parsed, by their first byte.
    containers: HashMap<usize, Container>,
}

/// The ranges of the values of an array or an object.
#[derive(Debug)]
enum Container {
    Array(Vec<Range<usize>>),
    /// By name. If a name occurs several times, the last counts, as in most parsers.
    Object(HashMap<String, Range<usize>>),
}

impl Document {
    /// Parses the complete text once. `parsed` counts the bytes that were parsed.
    pub(super) fn new(text: &str, parsed: &mut usize) -> Result<Self, TooMuch> {
        spend(parsed, text.len())?;
        // Only escapes are replaced, by others of the same length.
        let root = serde_json::from_str::<&RawValue>(text)
            .ok()
            .filter(|value| depth(value.get()) <= DEPTH)
            .map(|value| range_of(value, text));
        let mended = match well_formed(text) {
            Cow::Owned(mended) if root.is_some() => Some(mended),
            Cow::Owned(_) | Cow::Borrowed(_) => None,
        };
        Ok(Self {
            mended,
            root,
            containers: HashMap::new(),
        })
    }

    /// The text at an RFC 6901 pointer. `None` if there is no value, or the pointer is invalid.
    pub(super) fn at<'t>(
        &'t mut self,
        text: &'t str,
        pointer: &str,
        parsed: &mut usize,
    ) -> Result<Option<&'t str>, TooMuch> {
        let text = self.mended.as_deref().unwrap_or(text);
        let Some(mut place) = self.root.clone() else {
            return Ok(None);
        };
        let Some(tokens) = pointer::tokens(pointer) else {
            return Ok(None);
        };
        for token in tokens {
            let container = match self.containers.get(&place.start) {
                Some(container) => container,
                None => {
                    let part = text.get(place.clone()).unwrap_or_default();
                    let Some(container) = Container::of(part, place.start, parsed)? else {
                        return Ok(None);
                    };
                    self.containers.entry(place.start).or_insert(container)
                }
            };
            match container.get(&token) {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
        Ok(text.get(place))
    }
}

impl Container {
    /// The ranges of the values in a text that starts at `start`. `None` if it is neither an array nor an object.
    fn of(text: &str, start: usize, parsed: &mut usize) -> Result<Option<Self>, TooMuch> {
        let in_whole = |value: &RawValue| {
            let place = range_of(value, text);
            start + place.start..start + place.end
        };
        match text.as_bytes().first() {
            Some(b'[') => {
                spend(parsed, text.len())?;
                let values: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                Ok(Some(Self::Array(
                    values.into_iter().map(in_whole).collect(),
                )))
            }
            Some(b'{') => {
                spend(parsed, text.len())?;
                let members = serde_json::from_str::<Entries<&RawValue, _>>(text);
                let members = members.map_or_else(|_| Vec::new(), |Entries(all)| all);
                let named = members.into_iter().filter_map(|(name, value)| {
                    // A name with half of a surrogate pair has U+FFFD by now.
                    Some((serde_json::from_str(name.get()).ok()?, in_whole(value)))
                });
                Ok(Some(Self::Object(named.collect())))
            }
            _ => Ok(None),
        }
    }

    fn get(&self, token: &ReferenceToken<'_>) -> Option<Range<usize>> {
        match self {
            Self::Array(values) => values.get(token.index()?).cloned(),
            Self::Object(members) => members.get(token.name()).cloned(),
        }
    }
}

/// A JSON text without halves of surrogate pairs: `\ud83d` alone, which senders may write, becomes `\ufffd`. The strings of many languages can't hold a half, and no string of a component can.
pub(super) fn well_formed(text: &str) -> Cow<'_, str> {
    let mut mended = Cow::Borrowed(text);
    let mut rest = 0;
    // The position of the escape of a first half that has no second half yet.
    let mut open: Option<usize> = None;
    let mut replace = |at: Option<usize>| {
        if let Some(at) = at {
            mended.to_mut().replace_range(at..at + 6, "\\ufffd");
        }
    };
    while let Some(found) = text.get(rest..).and_then(|rest| rest.find('\\')) {
        let at = rest + found;
        if open.is_some_and(|open| at != open + 6) {
            replace(open.take());
        }
        match escaped(text, at) {
            Some(0xd800..=0xdbff) => {
                replace(open.replace(at));
                rest = at + 6;
            }
            Some(0xdc00..=0xdfff) => {
                if open.take().is_none() {
                    replace(Some(at));
                }
                rest = at + 6;
            }
            Some(_) | None => {
                replace(open.take());
                // The escaped byte, such as a second backslash, starts no escape.
                rest = at + 2;
            }
        }
    }
    replace(open);
    mended
}

/// The code unit of an escape `\uXXXX` at this position.
fn escaped(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

fn spend(parsed: &mut usize, bytes: usize) -> Result<(), TooMuch> {
    *parsed = parsed.saturating_add(bytes);
    if *parsed > MAX_PARSED {
        return Err(TooMuch);
    }
    Ok(())
}

/// The range of a value in the text that it was read from.
fn range_of(value: &RawValue, text: &str) -> Range<usize> {
    let value = value.get();
    let start = value.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + value.len()
}

/// The nesting depth of the arrays and objects of a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next()
                    && byte != b'"'
                {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, pointer: &str) -> Option<String> {
        let mut parsed = 0;
        let mut document = Document::new(text, &mut parsed).unwrap();
        let found = document.at(text, pointer, &mut parsed).unwrap();
        let found = found.map(str::to_owned);
        // A second search, which uses what the first one parsed, gives the same result.
        let again = document.at(text, pointer, &mut parsed).unwrap();
        assert_eq!(again, found.as_deref());
        found
    }

    #[test]
    fn a_pointer_finds_the_unchanged_text() {
        let text = r#" {"price": 1.10, "id": 123456789012345678901234567890, "large": -1E+400,
            "name": "\u00e9 \ud83d", "list": [ 1 , [ 2, {"a" : null } ] ], "a/b": {"m~n": true},
            "twice": {"first": 1}, "twice": 2.0, "": "nameless", "\ud83d": 4, "\u0061": 5, "0": [6] } "#;
        for (pointer, expected) in [
            ("/price", Some("1.10")),
            ("/id", Some("123456789012345678901234567890")),
            ("/large", Some("-1E+400")),
            ("/name", Some(r#""\u00e9 \ufffd""#)),
            ("/\u{fffd}", Some("4")),
            ("/list", Some(r#"[ 1 , [ 2, {"a" : null } ] ]"#)),
            ("/list/1/1", Some(r#"{"a" : null }"#)),
            ("/list/1/1/a", Some("null")),
            ("/a~1b/m~0n", Some("true")),
            ("/twice", Some("2.0")),
            ("/twice/first", None),
            ("/", Some(r#""nameless""#)),
            ("/a", Some("5")),
            ("/0/0", Some("6")),
            ("/list/01", None),
            ("/list/+1", None),
            ("/list/-", None),
            ("/list/2", None),
            ("/list/1x", None),
            ("/list/18446744073709551616", None),
            ("/price/0", None),
            ("price", None),
            ("/none", None),
        ] {
            assert_eq!(at(text, pointer).as_deref(), expected, "{pointer}");
        }
        let mended = text.trim().replace(r"\ud83d", r"\ufffd");
        assert_eq!(at(text, ""), Some(mended));
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_pairs_are_not() {
        for (text, expected) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\uD83D\uDE00\ude00""#, r#""\uD83D\uDE00\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83dx\ude00""#, r#""\ufffdx\ufffd""#),
            (r#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            // Escaped backslashes.
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d\\""#, r#""\\\ufffd\\""#),
            (r#"["\ud83d","\ude00"]"#, r#"["\ufffd","\ufffd"]"#),
            (r#"{"\udc00":"\u00e9é"}"#, r#"{"\ufffd":"\u00e9é"}"#),
        ] {
            assert_eq!(at(text, "").as_deref(), Some(expected), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
        }
    }

    #[test]
    fn a_text_that_is_not_json_has_no_values() {
        for text in [
            "",
            "not json",
            "{\"a\": 1",
            "{\"a\": 01}",
            "1 2",
            "{'a': 1}",
            "NaN",
        ] {
            assert_eq!(at(text, ""), None, "{text}");
            assert_eq!(at(text, "/a"), None, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_not_json_and_does_not_overflow_the_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(at(&nested(DEPTH), "").is_some());
        assert!(at(&nested(DEPTH), &"/0".repeat(DEPTH - 1)).is_some());
        assert_eq!(at(&nested(DEPTH + 1), ""), None);
        assert_eq!(at(&nested(500_000), ""), None);
        assert_eq!(at(&"[".repeat(1_000_000), ""), None);
        let quoted = format!("[\"{}\\\"[\"]", "[".repeat(1_000));
        assert!(at(&quoted, "/0").is_some());
    }

    #[test]
    fn a_large_text_is_parsed_once_and_not_for_each_pointer() {
        let numbers: Vec<_> = (0..100_000).map(|number| number.to_string()).collect();
        let text = format!("{{\"items\": [{}]}}", numbers.join(","));
        let mut parsed = 0;
        let mut document = Document::new(&text, &mut parsed).unwrap();
        for number in 0..100_000 {
            let found = document.at(&text, &format!("/items/{number}"), &mut parsed);
            assert_eq!(found, Ok(Some(number.to_string().as_str())));
        }
        assert!(parsed <= 3 * text.len(), "{parsed}");
    }

    #[test]
    fn parsing_of_a_nested_large_text_is_limited() {
        let text = format!(
            "{}{}{}",
            "[".repeat(100),
            "1".repeat(1 << 20),
            "]".repeat(100)
        );
        let mut parsed = 0;
        let mut document = Document::new(&text, &mut parsed).unwrap();
        assert!(document.at(&text, &"/0".repeat(50), &mut parsed).is_ok());
        let found = document.at(&text, &"/0".repeat(100), &mut parsed);
        assert_eq!(found, Err(TooMuch));
    }
}
