//! The message's body, for policies to read.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_json::pointer;

use crate::document::{Document, TooMuch, well_formed};

/// A complete body, or the known parts of one.
#[derive(Debug)]
pub struct Payload(Content);

#[derive(Debug)]
enum Content {
    Body(Arc<str>),
    /// Parts of a body, by pointer.
    Parts(BTreeMap<String, Option<String>>),
}

/// What a recorded body contains at a pointer.
enum Recorded<'a> {
    /// This text, or no value.
    Part(Option<&'a str>),
    /// A value within this text, which is at a pointer above.
    Below {
        above: &'a str,
        text: &'a str,
        rest: &'a str,
    },
    /// Unknown.
    Unknown,
}

impl Default for Payload {
    fn default() -> Self {
        Self::new("")
    }
}

impl Payload {
    /// A payload with this body.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(Content::Body(text.into()))
    }

    /// The payload of a decision record: the parts that the policy read, by pointer.
    pub fn recorded(parts: BTreeMap<String, Option<String>>) -> Self {
        Self(Content::Parts(parts))
    }

    /// The size in bytes of the body, or of its known parts.
    pub fn size(&self) -> usize {
        match &self.0 {
            Content::Body(text) => text.len(),
            Content::Parts(parts) => parts.values().flatten().map(String::len).sum(),
        }
    }

    /// Whether the value at this pointer is known. In a recorded body, values at and below the recorded pointers are known.
    pub fn knows(&self, pointer: &str) -> bool {
        match &self.0 {
            Content::Body(_) => true,
            Content::Parts(parts) => !matches!(recorded_at(parts, pointer), Recorded::Unknown),
        }
    }
}

/// The parts of a payload that one decision has parsed so far.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// The parsed texts, by pointer.
    documents: BTreeMap<String, Document>,
    looked_through: usize,
}

impl Lookups {
    /// The JSON text at an RFC 6901 pointer, unchanged except for halves of surrogate pairs, which become U+FFFD. `None` if the body is not JSON, has no value there, or the value is not [known](Payload::knows). An error if the decision has parsed too much.
    pub(super) fn get(
        &mut self,
        payload: &Payload,
        pointer: &str,
    ) -> Result<Option<String>, TooMuch> {
        let (above, text, rest) = match &payload.0 {
            Content::Body(text) => ("", &**text, pointer),
            Content::Parts(parts) => match recorded_at(parts, pointer) {
                Recorded::Part(part) => return Ok(part.map(|part| well_formed(part).into_owned())),
                Recorded::Below { above, text, rest } => (above, text, rest),
                Recorded::Unknown => return Ok(None),
            },
        };
        let document = match self.documents.get_mut(above) {
            Some(document) => document,
            None => {
                let document = Document::new(text, &mut self.looked_through)?;
                self.documents.entry(above.to_owned()).or_insert(document)
            }
        };
        let found = document.at(text, rest, &mut self.looked_through)?;
        Ok(found.map(str::to_owned))
    }
}

fn recorded_at<'a>(parts: &'a BTreeMap<String, Option<String>>, pointer: &'a str) -> Recorded<'a> {
    if let Some(part) = parts.get(pointer) {
        return Recorded::Part(part.as_deref());
    }
    if pointer::tokens(pointer).is_none() {
        // An invalid pointer has no value in any body.
        return Recorded::Part(None);
    }
    let above = pointer.rmatch_indices('/').find_map(|(at, _)| {
        let (above, rest) = pointer.split_at(at);
        parts.get(above).map(|part| (above, part, rest))
    });
    match above {
        Some((above, Some(text), rest)) => Recorded::Below { above, text, rest },
        Some((_, None, _)) => Recorded::Part(None),
        None => Recorded::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(payload: &Payload, pointer: &str) -> Option<String> {
        Lookups::default().get(payload, pointer).unwrap()
    }

    #[test]
    fn a_pointer_finds_the_json_text_or_nothing() {
        let payload =
            Payload::new(r#"{"order": {"id": "o-1", "lines": [{"qty": 2.0}]}, "a/b": null}"#);
        for (pointer, expected) in [
            ("/order/id", Some(r#""o-1""#)),
            ("/order/lines", Some(r#"[{"qty": 2.0}]"#)),
            ("/order/lines/0/qty", Some("2.0")),
            ("/a~1b", Some("null")),
            ("/order/none", None),
            ("order", None),
        ] {
            assert_eq!(get(&payload, pointer).as_deref(), expected, "{pointer}");
            assert!(payload.knows(pointer));
        }
        assert_eq!(get(&Payload::new("not json"), ""), None);
        assert_eq!(get(&Payload::new(" [1] "), "").as_deref(), Some("[1]"));
    }

    #[test]
    fn a_recorded_body_is_known_at_and_below_the_recorded_pointers() {
        let parts = [
            ("/order", Some(r#"{"id":"o-1","lines":[{"qty":2}]}"#)),
            ("/order/lines", Some(r#"[ {"qty":3} ]"#)),
            ("/tenant", None),
        ];
        let parts = parts.map(|(pointer, text)| (pointer.to_owned(), text.map(str::to_owned)));
        let payload = Payload::recorded(parts.into());
        let mut lookups = Lookups::default();
        for (pointer, known, expected) in [
            ("/order/id", true, Some(r#""o-1""#)),
            // From the closest recorded pointer.
            ("/order/lines/0", true, Some(r#"{"qty":3}"#)),
            ("/order/none", true, None),
            ("/order/id", true, Some(r#""o-1""#)),
            ("/tenant", true, None),
            ("/tenant/plan", true, None),
            ("tenant", true, None),
            ("/orders", false, None),
            ("", false, None),
        ] {
            assert_eq!(payload.knows(pointer), known, "{pointer}");
            let found = lookups.get(&payload, pointer).unwrap();
            assert_eq!(found.as_deref(), expected, "{pointer}");
        }
    }
}
