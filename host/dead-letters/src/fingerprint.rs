//! What similar letters have in common: the text of the error with numbers and ids masked, or the shape of the body.

use std::fmt;

use backstop_core::failure::Error;
use backstop_core::text::{cut, head};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::origin::fields;

/// The longest text of a fingerprint, in bytes.
const TEXT_BYTES: usize = 300;

/// How much of a text is looked at, in bytes.
const READ_BYTES: usize = 4 * 1024;

/// From this length, a word of letters and digits is an id.
const ID_LENGTH: usize = 8;

/// What similar letters have in common. Two letters with the same fingerprint most likely died of the same cause.
///
/// ```
/// use backstop_core::failure::Error;
/// use backstop_dead_letters::Fingerprint;
///
/// let one = Fingerprint::of_error(&Error::new("HTTP 404", "no order 7 of customer 5fea7756-0ea4-451a-a703-a558b933e274"));
/// let two = Fingerprint::of_error(&Error::new("HTTP 404", "no order 12 of customer 0c4f4c1e-9f2c-4c1d-8d4f-3b1f0c9d9a11"));
/// assert_eq!(one, two);
/// assert_eq!(one.text(), "HTTP 404: no order # of customer <id>");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of an error: its code as it is, its text masked.
    pub fn of_error(error: &Error) -> Self {
        let text = masked(&error.message);
        Self::new(match text.as_str() {
            "" => error.code.clone(),
            text => format!("{}: {text}", error.code),
        })
    }

    /// The fingerprint of a body without a known error: the names in a JSON object, or the masked text.
    pub fn of_body(body: &str) -> Self {
        Self::new(match fields(body) {
            Some(fields) => {
                let names: Vec<_> = fields.into_iter().map(|(name, _)| name).collect();
                format!("a body with {}", names.join(", "))
            }
            None => format!("the body {}", masked(body)),
        })
    }

    fn new(mut text: String) -> Self {
        cut(&mut text, TEXT_BYTES);
        Self(text)
    }

    /// For people.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// For command lines: eight hexadecimal digits.
    pub fn id(&self) -> String {
        let mut digest = hex::encode(Sha256::digest(&self.0));
        digest.truncate(8);
        digest
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text with `#` for numbers and `<id>` for ids.
fn masked(text: &str) -> String {
    let text = head(text, READ_BYTES);
    let mut masked = String::with_capacity(text.len().min(TEXT_BYTES));
    let mut rest = text;
    while !rest.is_empty() && masked.len() < TEXT_BYTES {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        push_word(word, &mut masked);
        let mut characters = after.chars();
        match characters.next() {
            // One space for any white space, so that layouts do not matter.
            Some(c) if c.is_whitespace() && masked.ends_with(' ') => {}
            Some(c) if c.is_whitespace() => masked.push(' '),
            Some(c) => masked.push(c),
            None => {}
        }
        rest = characters.as_str();
    }
    // 1.5, 10:30 and 10.0.0.1 are one number each.
    for joined in ["#.#", "#:#", "#,#"] {
        while masked.contains(joined) {
            masked = masked.replace(joined, "#");
        }
    }
    masked.trim().to_owned()
}

fn push_word(word: &str, masked: &mut String) {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    if digits == 0 {
        masked.push_str(word);
    } else if letters == 0 {
        masked.push('#');
    } else if word.len() >= ID_LENGTH {
        masked.push_str("<id>");
    } else {
        let mut in_number = false;
        for c in word.chars() {
            if !c.is_ascii_digit() {
                masked.push(c);
            } else if !in_number {
                masked.push('#');
            }
            in_number = c.is_ascii_digit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_ids_are_masked() {
        for (text, expected) in [
            ("no order 17", "no order #"),
            ("took 1.5s of 30s", "took #s of #s"),
            ("10.0.0.1:8080 refused", "# refused"),
            (
                "order 5fea7756-0ea4-451a-a703-a558b933e274 is gone",
                "order <id> is gone",
            ),
            ("order ord_93Ab21xYz", "order <id>"),
            ("at  2026-11-22T10:00:00Z\n now", "at <id>:#Z now"),
            ("p50 of v2", "p# of v#"),
            ("no digits here", "no digits here"),
            ("", ""),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn the_shape_of_a_body_stands_for_an_unknown_error() {
        let one = Fingerprint::of_body(r#"{"id": 1, "lines": [1, 2]}"#);
        let two = Fingerprint::of_body(r#" {"lines": [], "id": "x"}"#);
        assert_eq!(one, two);
        assert_eq!(one.text(), "a body with id, lines");
        assert_ne!(one.id(), Fingerprint::of_body("{not JSON 1").id());
        assert_eq!(one.id().len(), 8);
    }

    proptest! {
        #[test]
        fn any_text_has_a_short_fingerprint(text in any::<String>()) {
            let found = Fingerprint::of_error(&Error::new("c", text.clone()));
            prop_assert!(found.text().len() <= TEXT_BYTES);
            prop_assert!(!masked(&text).chars().any(|c| c.is_ascii_digit()));
        }
    }
}
