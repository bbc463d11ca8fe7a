//! A JSON string as text, even if it is not valid Unicode: an unpaired surrogate becomes U+FFFD.

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

        // For bytes, serde_json also decodes an unpaired surrogate, to three bytes of WTF-8 that are not valid UTF-8.
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Converts WTF-8 to text: each unpaired surrogate becomes one U+FFFD.
fn decoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        if chunk.invalid().is_empty() {
            continue;
        }
        text.push(char::REPLACEMENT_CHARACTER);
        // The first of the three bytes ends a chunk, and each of the other two has its own chunk.
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
    fn an_unpaired_surrogate_becomes_one_character() {
        let two = "\u{fffd}\u{fffd}";
        for (json, expected) in [
            (r#""""#, String::new()),
            (r#""plain é \u00e9 \n""#, "plain é é \n".to_owned()),
            (r#""\ud83d\ude00""#, "😀".to_owned()),
            (r#""cut \ud83d""#, "cut \u{fffd}".to_owned()),
            (r#""\ude00 cut""#, "\u{fffd} cut".to_owned()),
            (r#""\ud83d\ud83d""#, two.to_owned()),
            (r#""\ude00\ud83d""#, two.to_owned()),
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
