//! The envelope that a retried event comes to a Lambda function in, and the tower layer that takes it off.
//!
//! A retried event is `{"_retry_metadata": {"attempt": 2, "initial_timestamp": 1767225600, …}, "_original_payload": …}`. The first attempt is the event itself. A function that puts [`UnwrapLayer`] around its handler sees the original payload each time, and asks [`RetryContext::current`] which attempt it is:
//!
//! ```no_run
//! use backstop_envelope::{RetryContext, UnwrapLayer};
//! use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};
//! use serde_json::Value;
//!
//! async fn charge(order: LambdaEvent<Value>) -> Result<(), Error> {
//!     let retry = RetryContext::current().unwrap_or_default();
//!     // The id is the same for each attempt at one event: an idempotency key.
//!     println!("attempt {} of {}: {}", retry.attempt, retry.id, order.payload);
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     Runtime::new(service_fn(charge)).layer(UnwrapLayer).run().await
//! }
//! ```

mod layer;
mod metadata;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use layer::{RetryContext, Unwrap, UnwrapLayer};
pub use metadata::{LastError, Metadata, Redriven};

const METADATA: &str = "_retry_metadata";
const PAYLOAD: &str = "_original_payload";

/// An envelope, opened.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// What is written on it.
    pub metadata: Metadata,
    /// The event as it was at first: its text, byte for byte.
    pub payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape<'a> {
    #[serde(rename = "_retry_metadata", borrow)]
    metadata: &'a RawValue,
    #[serde(rename = "_original_payload", borrow)]
    payload: &'a RawValue,
}

impl<'a> Envelope<'a> {
    /// Opens an event that is an envelope: an object of the two keys and no other, whose metadata have a whole `attempt` from 1 and an `initial_timestamp`. Everything else is an event of the sender's own, whatever keys it has.
    pub fn open(event: &'a str) -> Option<Self> {
        let Shape { metadata, payload } = serde_json::from_str(event).ok()?;
        let metadata = Metadata::parse(metadata.get())?;
        Some(Self { metadata, payload })
    }
}

/// The event in an envelope. `payload` is JSON text, and stays as it is to the byte.
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
    fn an_envelope_is_known_by_its_two_keys_and_their_kinds() {
        let of = |attempt: &str, first: &str| {
            format!(
                r#"{{"_retry_metadata": {{"attempt": {attempt}, "initial_timestamp": {first}}}, "_original_payload": [1]}}"#
            )
        };
        for (event, expected) in [
            (of("2", "1767225600"), Some((2, 1_767_225_600))),
            (of("1", "1767225600.75"), Some((1, 1_767_225_600))),
            (of("7", "1767225600750"), Some((7, 1_767_225_600))),
            (of("0", "1767225600"), None),
            (of("-1", "1767225600"), None),
            (of("1.5", "1767225600"), None),
            (of("true", "1767225600"), None),
            (of("\"2\"", "1767225600"), None),
            (of("2", "\"2026-01-01\""), None),
            (of("2", "null"), None),
            (of("2", "-5"), None),
            (r#"{"_retry_metadata": {"attempt": 2, "initial_timestamp": 5}}"#.to_owned(), None),
            (r#"{"_original_payload": 1}"#.to_owned(), None),
            (r#"{"_retry_metadata": {"attempt": 2}, "_original_payload": 1}"#.to_owned(), None),
            (r#"{"_retry_metadata": 2, "_original_payload": 1}"#.to_owned(), None),
            (r#"{"_retry_metadata": {"attempt": 2, "initial_timestamp": 5}, "_original_payload": 1, "more": 1}"#.to_owned(), None),
            ("[]".to_owned(), None),
            ("null".to_owned(), None),
            ("".to_owned(), None),
        ] {
            let opened = Envelope::open(&event);
            let found = opened.map(|it| (it.metadata.attempt.get(), it.metadata.initial_timestamp));
            assert_eq!(found, expected, "{event}");
        }
    }

    #[test]
    fn what_somebody_else_wrote_on_it_stays() {
        let event = r#"{"_retry_metadata": {"attempt": 2, "initial_timestamp": 5, "tenant": {"n": 1.0}, "id": 5}, "_original_payload": null}"#;
        let opened = Envelope::open(event).unwrap();
        assert_eq!(opened.metadata.id, None);
        assert_eq!(opened.payload.get(), "null");
        let again = wrap(&opened.metadata, opened.payload.get());
        assert_eq!(
            again,
            r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":5,"tenant":{"n": 1.0}},"_original_payload":null}"#
        );
    }

    proptest! {
        #[test]
        fn what_is_wrapped_comes_out_to_the_byte(
            payload in r#"(\{"a": ?("[a-z\u{e9}]{0,9}"|1e400|12345678901234567890|\[ ?\])\}|null|"x"|\[1, 2\]|-0\.0)"#, attempt in 1..100_u32,
        ) {
            let wrapped = wrap(&metadata(attempt), &payload);
            let opened = Envelope::open(&wrapped).unwrap();
            prop_assert_eq!(opened.payload.get(), payload.as_str());
            prop_assert_eq!(opened.metadata, metadata(attempt));
        }
    }
}
