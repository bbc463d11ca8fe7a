//! Values of a JSON body by pointer (RFC 6901), with the text that they have there.

use backstop_json::{Object, shown};
use serde_json::value::RawValue;

/// The value at this pointer: a string as its text, anything else as its JSON text. `None` if the body is not JSON or has no value there.
///
/// ```
/// use backstop_dead_letters::value_at;
///
/// let body = r#"{"order": {"lines": [{"price": 1.10}], "customer": "c-7"}}"#;
/// assert_eq!(value_at(body, "/order/customer").as_deref(), Some("c-7"));
/// assert_eq!(value_at(body, "/order/lines/0/price").as_deref(), Some("1.10"));
/// assert_eq!(value_at(body, "/order/total"), None);
/// ```
pub fn at(body: &str, pointer: &str) -> Option<String> {
    let mut value: &RawValue = serde_json::from_str(body).ok()?;
    if pointer.is_empty() {
        return Some(shown(value));
    }
    for token in pointer.strip_prefix('/')?.split('/') {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = match Object::of(value) {
            Some(object) => object.get(&token)?,
            None => {
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                let is_index = token == "0" || !token.starts_with(['0', '+']);
                let index: usize = token.parse().ok().filter(|_| is_index)?;
                items.get(index).copied()?
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
            ("/a~1b/~0/01", None),
            ("/", Some("1")),
            ("/c", None),
            ("c", None),
            ("", Some(body)),
        ] {
            assert_eq!(at(body, pointer).as_deref(), expected, "{pointer}");
        }
        assert_eq!(at("no JSON", ""), None);
        assert_eq!(at("\"text\"", "").as_deref(), Some("text"));
    }
}
