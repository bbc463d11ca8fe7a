#![doc = include_str!("../README.md")]
// So that docs.rs says which feature has an item.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "layer")]
mod layer;
mod metadata;
#[cfg(feature = "idempotency")]
mod once;

use backstop_json::Object;
use serde_json::value::RawValue;

#[cfg(feature = "layer")]
pub use layer::{RetryContext, Unwrap, UnwrapLayer};
pub use metadata::{LARGEST_ATTEMPT, LONGEST_ID, LastError, Metadata, Opened, Redriven, is_id};
#[cfg(feature = "idempotency")]
pub use once::{OnceLayer, OnceService};

const METADATA: &str = "_retry_metadata";
const PAYLOAD: &str = "_original_payload";

/// A parsed envelope.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// The retry metadata.
    pub metadata: Metadata,
    /// The JSON text of the original event, byte for byte.
    pub payload: &'a RawValue,
}

impl<'a> Envelope<'a> {
    /// Parses an event that is an envelope as `host/docs/deploy/lambda.md` defines it: an object with exactly the two keys, whose metadata is an object with an integer `attempt` and an `initial_timestamp`, both in range. Anything else is the sender's own event, whatever keys it has.
    pub fn open(event: &'a str) -> Option<Self> {
        let event = Object::parse(event).ok().filter(|it| it.len() == 2)?;
        let payload = event.get(PAYLOAD)?;
        let metadata = Metadata::of(event.object(METADATA)?)?;
        Some(Self { metadata, payload })
    }
}

/// Wraps an event in an envelope. `payload` is JSON text and is kept byte for byte.
pub fn wrap(metadata: &Metadata, payload: &str) -> String {
    format!(
        "{{\"{METADATA}\":{},\"{PAYLOAD}\":{payload}}}",
        metadata.to_json()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    fn metadata(attempt: u32) -> Metadata {
        let mut metadata = Metadata::new(NonZeroU32::new(attempt).unwrap(), 1_767_225_600);
        metadata.id = Some("r-1".to_owned());
        metadata
    }

    #[test]
    fn unknown_metadata_is_kept() {
        let event = r#"{"_retry_metadata": {"attempt": 2, "initial_timestamp": 5, "tenant": {"n": 1.0}, "id": 5}, "_original_payload": null}"#;
        let opened = Envelope::open(event).unwrap();
        assert_eq!(opened.metadata.id, None);
        assert_eq!(opened.payload.get(), "null");
        let wrapped = wrap(&opened.metadata, opened.payload.get());
        assert_eq!(
            wrapped,
            r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":5,"tenant":{"n": 1.0}},"_original_payload":null}"#
        );
    }

    /// Another language passes the values that it has parsed.
    #[test]
    fn the_values_of_an_event_say_what_its_text_says() {
        let table = include_str!("../envelopes.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(table).unwrap();
        for case in cases {
            let event = case["event"].as_str().unwrap();
            let Ok(parsed) = serde_json::from_str::<serde_json::Value>(event) else {
                continue;
            };
            let metadata = &parsed["_retry_metadata"];
            let is_one = parsed.as_object().is_some_and(|it| it.len() == 2)
                && parsed.get("_original_payload").is_some()
                && metadata.is_object();
            let number = |name: &str| metadata[name].as_f64().unwrap_or(f64::NAN);
            let opened = Opened::of(
                number("attempt"),
                number("initial_timestamp"),
                metadata["id"].as_str(),
            );
            let expected = Envelope::open(event).map(|it| Opened {
                ordinal: it.metadata.ordinal(),
                initial_timestamp: it.metadata.initial_timestamp,
                has_id: it.metadata.id.is_some(),
            });
            assert_eq!(opened.filter(|_| is_one), expected, "{}", case["name"]);
        }
    }

    proptest! {
        #[test]
        fn wrapping_keeps_the_payload_byte_for_byte(
            payload in r#"(\{"a": ?("[a-z\u{e9}]{0,9}"|1e400|12345678901234567890|\[ ?\])\}|null|"x"|\[1, 2\]|-0\.0)"#, attempt in 1..100_u32,
        ) {
            let wrapped = wrap(&metadata(attempt), &payload);
            let opened = Envelope::open(&wrapped).unwrap();
            prop_assert_eq!(opened.payload.get(), payload.as_str());
            prop_assert_eq!(opened.metadata, metadata(attempt));
        }
    }
}
