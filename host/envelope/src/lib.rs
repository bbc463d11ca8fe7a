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

#[cfg(feature = "layer")]
mod layer;
mod metadata;

use backstop_json::Object;
use serde_json::value::RawValue;

#[cfg(feature = "layer")]
pub use layer::{RetryContext, Unwrap, UnwrapLayer};
pub use metadata::{LARGEST_ATTEMPT, LONGEST_ID, LastError, Metadata, Redriven, is_id};

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

impl<'a> Envelope<'a> {
    /// Opens an event that is an envelope, by the rule of `host/docs/lambda.md`: an object of the two keys and no other, whose metadata are an object with a whole `attempt` and an `initial_timestamp`, both in range. Everything else is an event of the sender's own, whatever keys it has.
    pub fn open(event: &'a str) -> Option<Self> {
        let event = Object::parse(event).ok().filter(|it| it.len() == 2)?;
        let payload = event.get(PAYLOAD)?;
        let metadata = Metadata::of(event.object(METADATA)?)?;
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
