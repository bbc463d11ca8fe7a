//! The message's body as a policy may look into it.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// A body, parsed as JSON when a policy first asks for a part of it.
#[derive(Debug, Default)]
pub struct Payload {
    text: Arc<str>,
    parsed: OnceLock<Option<Value>>,
}

impl Payload {
    /// The payload whose text is this body.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            parsed: OnceLock::new(),
        }
    }

    /// The size of the text, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The JSON text at an RFC 6901 pointer; none where the body is not JSON or has nothing there.
    pub fn get(&self, pointer: &str) -> Option<String> {
        self.parsed
            .get_or_init(|| serde_json::from_str(&self.text).ok())
            .as_ref()?
            .pointer(pointer)
            .map(Value::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_finds_the_json_text_or_nothing() {
        let payload =
            Payload::new(r#"{"order": {"id": "o-1", "lines": [{"qty": 2}]}, "a/b": null}"#);
        for (pointer, expected) in [
            ("/order/id", Some(r#""o-1""#)),
            ("/order/lines/0/qty", Some("2")),
            ("/a~1b", Some("null")),
            ("/order/none", None),
            ("order", None),
        ] {
            assert_eq!(payload.get(pointer).as_deref(), expected, "{pointer}");
        }
        assert_eq!(Payload::new("not json").get(""), None);
        assert_eq!(Payload::new("[1]").get("").as_deref(), Some("[1]"));
    }
}
