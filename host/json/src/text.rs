//! A JSON string as text, even where it is no Unicode: half of a surrogate pair becomes U+FFFD.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The text of a JSON string.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(decoded(bytes)))
            }
        }

        // For bytes serde_json decodes half of a surrogate pair too, as three bytes that are no UTF-8 (WTF-8).
        deserializer.deserialize_bytes(Bytes)
    }
}

/// The text of WTF-8: one U+FFFD for each half of a surrogate pair.
fn decoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        if chunk.invalid().is_empty() {
            continue;
        }
        text.push(char::REPLACEMENT_CHARACTER);
        // The first of the three bytes ends a chunk, and each of the other two is one of its own.
        if chunk.invalid().first() == Some(&0xED) {
            for _ in 0..2 {
                chunks.next_if(|next| next.valid().is_empty() && is_continuation(next.invalid()));
            }
        }
    }
    text
}

fn is_continuation(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80..=0xBF])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_surrogate_pair_costs_one_character() {
        let halves = "\u{fffd}\u{fffd}";
        for (json, expected) in [
            (r#""""#, String::new()),
            (r#""plain é \u00e9 \n""#, "plain é é \n".to_owned()),
            (r#""\ud83d\ude00""#, "😀".to_owned()),
            (r#""cut \ud83d""#, "cut \u{fffd}".to_owned()),
            (r#""\ude00 cut""#, "\u{fffd} cut".to_owned()),
            (r#""\ud83d\ud83d""#, halves.to_owned()),
            (r#""\ude00\ud83d""#, halves.to_owned()),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀".to_owned()),
            (r#""\ud83dx\u0000""#, "\u{fffd}x\0".to_owned()),
        ] {
            let Text(found) = serde_json::from_str(json).unwrap();
            assert_eq!(found, expected, "{json}");
        }
        for json in ["[104, 105]", "5", "null", "{}"] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json}");
        }
    }
}
