//! The message's body as a policy may look into it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// A body, or what is known of one.
#[derive(Debug)]
pub struct Payload(Content);

#[derive(Debug)]
enum Content {
    /// Parsed as JSON when a policy first asks for a part of it.
    Body(Arc<str>, OnceLock<Option<Value>>),
    /// Parts of a body, by pointer.
    Parts(BTreeMap<String, Option<String>>),
}

impl Default for Payload {
    fn default() -> Self {
        Self::new("")
    }
}

impl Payload {
    /// The payload whose text is this body.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(Content::Body(text.into(), OnceLock::new()))
    }

    /// The payload of a decision record: what the policy read of it, by pointer.
    pub fn recorded(parts: BTreeMap<String, Option<String>>) -> Self {
        Self(Content::Parts(parts))
    }

    /// The JSON text at an RFC 6901 pointer; none where the body is not JSON or has nothing there, and none where that is not [known](Self::knows).
    pub fn get(&self, pointer: &str) -> Option<String> {
        match &self.0 {
            Content::Body(text, parsed) => parsed
                .get_or_init(|| serde_json::from_str(text).ok())
                .as_ref()?
                .pointer(pointer)
                .map(Value::to_string),
            Content::Parts(parts) => recorded_at(parts, pointer).flatten(),
        }
    }

    /// The size of the body in bytes; of one of which parts are known, that of the parts.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Content::Body(text, _) => text.len(),
            Content::Parts(parts) => parts.values().flatten().map(String::len).sum(),
        }
    }

    /// Whether it is known what the body has there. Of a recorded body that is so at and below the pointers that were recorded.
    pub fn knows(&self, pointer: &str) -> bool {
        match &self.0 {
            Content::Body(..) => true,
            Content::Parts(parts) => recorded_at(parts, pointer).is_some(),
        }
    }
}

/// What recorded parts say of a pointer: what was there, that nothing was, or not a word.
fn recorded_at(parts: &BTreeMap<String, Option<String>>, pointer: &str) -> Option<Option<String>> {
    if let Some(part) = parts.get(pointer) {
        return Some(part.clone());
    }
    if !pointer.is_empty() && !pointer.starts_with('/') {
        // No pointer: it leads nowhere in any body.
        return Some(None);
    }
    let above = pointer.rmatch_indices('/').find_map(|(at, _)| {
        let (above, rest) = pointer.split_at(at);
        parts.get(above).map(|part| (part, rest))
    });
    let (above, rest) = above?;
    let found = above.as_ref().and_then(|text| {
        let value: Value = serde_json::from_str(text).ok()?;
        value.pointer(rest).map(Value::to_string)
    });
    Some(found)
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
            assert!(payload.knows(pointer));
        }
        assert_eq!(Payload::new("not json").get(""), None);
        assert_eq!(Payload::new("[1]").get("").as_deref(), Some("[1]"));
    }

    #[test]
    fn a_recorded_body_is_known_at_and_below_what_was_read_of_it() {
        let parts = [
            ("/order", Some(r#"{"id":"o-1","lines":[{"qty":2}]}"#)),
            ("/tenant", None),
        ];
        let parts = parts.map(|(pointer, text)| (pointer.to_owned(), text.map(str::to_owned)));
        let payload = Payload::recorded(parts.into());
        for (pointer, known, expected) in [
            ("/order/id", true, Some(r#""o-1""#)),
            ("/order/lines/0", true, Some(r#"{"qty":2}"#)),
            ("/order/none", true, None),
            ("/tenant", true, None),
            ("/tenant/plan", true, None),
            ("tenant", true, None),
            ("/orders", false, None),
            ("", false, None),
        ] {
            assert_eq!(payload.knows(pointer), known, "{pointer}");
            assert_eq!(payload.get(pointer).as_deref(), expected, "{pointer}");
        }
    }
}
