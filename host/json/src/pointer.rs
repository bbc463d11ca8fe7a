//! JSON pointers (RFC 6901): their tokens, and the values of a text by pointer.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{Object, shown};

/// One step of a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceToken<'a>(Cow<'a, str>);

impl ReferenceToken<'_> {
    /// The name of the field, if the step is into an object.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The position of the element, if the step is into an array: digits without leading zeros.
    pub fn index(&self) -> Option<usize> {
        let is_index = self.0 == "0" || !self.0.starts_with(['0', '+']);
        self.0.parse().ok().filter(|_| is_index)
    }
}

/// The steps of a pointer, from the outermost value on. `None` if the text is not a pointer: neither empty nor with a `/` at its start.
///
/// ```
/// let tokens: Vec<_> = backstop_json::pointer::tokens("/a~1b/0").unwrap().collect();
/// assert_eq!(tokens[0].name(), "a/b");
/// assert_eq!(tokens[1].index(), Some(0));
/// ```
pub fn tokens(pointer: &str) -> Option<impl Iterator<Item = ReferenceToken<'_>>> {
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    is_pointer.then(|| pointer.split('/').skip(1).map(token))
}

fn token(written: &str) -> ReferenceToken<'_> {
    ReferenceToken(if written.contains('~') {
        written.replace("~1", "/").replace("~0", "~").into()
    } else {
        written.into()
    })
}

/// The value at this pointer: a string as its text, anything else as its JSON text. `None` if the body is not JSON or has no value there.
///
/// ```
/// use backstop_json::pointer;
///
/// let body = r#"{"order": {"lines": [{"price": 1.10}], "customer": "c-7"}}"#;
/// assert_eq!(pointer::shown_at(body, "/order/customer").as_deref(), Some("c-7"));
/// assert_eq!(pointer::shown_at(body, "/order/lines/0/price").as_deref(), Some("1.10"));
/// assert_eq!(pointer::shown_at(body, "/order/total"), None);
/// ```
pub fn shown_at(body: &str, pointer: &str) -> Option<String> {
    let mut value: &RawValue = serde_json::from_str(body).ok()?;
    for token in tokens(pointer)? {
        value = match Object::of(value) {
            Some(object) => object.get(token.name())?,
            None => {
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                items.get(token.index()?).copied()?
            }
        };
    }
    Some(shown(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_own_text() {
        let body = r#"{"a/b": {"~": [10000000000000000000001, null, "x\n"]}, "": 1}"#;
        for (pointer, expected) in [
            ("/a~1b/~0/0", Some("10000000000000000000001")),
            ("/a~1b/~0/1", Some("")),
            ("/a~1b/~0/2", Some("x\n")),
            ("/a~1b/~0/3", None),
            ("/", Some("1")),
            ("/c", None),
            ("c", None),
            ("", Some(body)),
        ] {
            assert_eq!(shown_at(body, pointer).as_deref(), expected, "{pointer}");
        }
        assert_eq!(shown_at("no JSON", ""), None);
        assert_eq!(shown_at("\"text\"", "").as_deref(), Some("text"));
    }

    #[test]
    fn an_index_is_digits_without_leading_zeros() {
        for (written, expected) in [("0", Some(0)), ("10", Some(10))] {
            assert_eq!(token(written).index(), expected, "{written}");
        }
        for written in [
            "",
            "01",
            "00",
            "+1",
            "-",
            "-1",
            "1x",
            "18446744073709551616",
        ] {
            assert_eq!(token(written).index(), None, "{written}");
        }
    }

    #[test]
    fn a_token_is_read_once() {
        for (written, name) in [("~01", "~1"), ("~1~0", "/~"), ("~2~", "~2~")] {
            assert_eq!(token(written).name(), name, "{written}");
        }
    }
}
