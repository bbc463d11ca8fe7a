//! The input of a decision: one failed attempt of one message, as plain data.
//!
//! An [`Error`] has a code, which policies classify, and optionally a status and the time after which the other side asked to be called again:
//!
//! ```
//! use backstop_core::failure::{Error, Milliseconds};
//!
//! let busy = Error::new("HTTP 429", "too many requests").status(429);
//! let busy = busy.retry_after(Milliseconds(30_000));
//! assert_eq!(busy.code, "HTTP 429");
//! ```

mod boto;
mod error;
mod time;

use std::borrow::Cow;
use std::num::NonZeroU32;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::text::cut;
use error::{fits, leave_out_largest};

pub use error::{Error, IN_PROGRESS, PERMANENT};
pub use time::{Milliseconds, Timestamp};

/// The longest error text and the longest error code that a policy receives, in bytes.
pub const MESSAGE_BYTES: usize = 4 * 1024;

/// The largest total size of an error's details, names and values together, in bytes.
pub const DETAIL_BYTES: usize = 4 * 1024;

/// The largest total size of a message's attributes, names and values together, in bytes.
pub const ATTRIBUTE_BYTES: usize = 16 * 1024;

/// The most details, and the most attributes, that a policy receives.
pub const PAIRS: usize = 100;

/// The longest message id that a policy receives, in bytes.
pub const ID_BYTES: usize = 128;

/// The longest source that a policy receives, in bytes. No ARN of a queue, or of a function with its alias, is longer.
pub const SOURCE_BYTES: usize = 256;

/// One failed attempt of one message: all that a policy receives. The fields are those of `failure` in `wit/policy.wit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the contract documents each field")]
pub struct Failure {
    pub message_id: String,
    pub source: String,
    pub attempt: NonZeroU32,
    pub age: Milliseconds,
    pub failed_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_delay: Option<Milliseconds>,
    #[serde(deserialize_with = "backstop_json::only_object")]
    pub error: Error,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
    #[serde(deserialize_with = "exact")]
    pub random: f64,
}

impl Failure {
    /// The failure as a policy receives it: its error [within bounds](Error::within_bounds); the largest attributes removed until the others fit into [`ATTRIBUTE_BYTES`] and [`PAIRS`]; the source cut to [`SOURCE_BYTES`]; a message id of more than [`ID_BYTES`] replaced by its digest, `sha256:` and 64 hexadecimal digits, which identifies the message as well.
    ///
    /// The sender of a message must not control how much work a policy has with it.
    pub fn within_bounds(&self) -> Cow<'_, Self> {
        if self.is_within_bounds() {
            return Cow::Borrowed(self);
        }
        let mut bounded = self.clone();
        if let Cow::Owned(digest) = bounded_id(&bounded.message_id) {
            bounded.message_id = digest;
        }
        cut(&mut bounded.source, SOURCE_BYTES);
        bounded.error = bounded.error.within_bounds();
        leave_out_largest(&mut bounded.attributes, ATTRIBUTE_BYTES);
        Cow::Owned(bounded)
    }

    fn is_within_bounds(&self) -> bool {
        self.message_id.len() <= ID_BYTES
            && self.source.len() <= SOURCE_BYTES
            && self.error.is_within_bounds()
            && fits(&self.attributes, ATTRIBUTE_BYTES)
    }
}

/// The id of a message as a policy receives it, and as records have it: one of more than [`ID_BYTES`] as `sha256:` and its digest in hexadecimal digits.
pub fn bounded_id(id: &str) -> Cow<'_, str> {
    if id.len() > ID_BYTES {
        Cow::Owned(format!("sha256:{}", hex::encode(Sha256::digest(id))))
    } else {
        Cow::Borrowed(id)
    }
}

/// Reads the number exactly as it was written. serde_json's own parser may be one bit off, which would change a decision. Works for JSON text only.
fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let digits = Box::<RawValue>::deserialize(deserializer)?;
    digits
        .get()
        .parse()
        .map_err(|_| serde::de::Error::custom(format!("`{digits}` is not a number")))
}

/// The random number of a failure: uniform in [0, 1), the same for the same message and attempt on every machine, independent of all others.
///
/// The first 53 bits of SHA-256 over the message's id, a zero byte and the attempt in four big-endian bytes, as a fraction.
pub fn random(message_id: &str, attempt: NonZeroU32) -> f64 {
    let digest = Sha256::new()
        .chain_update(message_id)
        .chain_update([0])
        .chain_update(attempt.get().to_be_bytes())
        .finalize();
    let bits = digest
        .iter()
        .take(8)
        .fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte))
        >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in a double")]
    let fraction = bits as f64 / (1_u64 << 53) as f64;
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_depends_on_message_and_attempt_only() {
        let one = NonZeroU32::MIN;
        let two = one.saturating_add(1);
        assert_eq!(random("a", one), random("a", one));
        assert_ne!(random("a", one), random("a", two));
        assert_ne!(random("a", one), random("b", one));
        // Pinned: another value here would change recorded decisions.
        assert_eq!(random("m-1", one), 0.391_248_108_205_947_6);
    }

    #[test]
    fn random_survives_json_exactly() {
        for message in 0..2_000 {
            let failure = Failure {
                message_id: message.to_string(),
                source: "local:q".to_owned(),
                attempt: NonZeroU32::MIN,
                age: Milliseconds(0),
                failed_at: Timestamp(0),
                previous_delay: None,
                error: Error::new("HTTP 503", ""),
                attributes: Vec::new(),
                random: random(&message.to_string(), NonZeroU32::MIN),
            };
            let text = serde_json::to_string(&failure).unwrap();
            let read: Failure = serde_json::from_str(&text).unwrap();
            assert_eq!(read.random.to_bits(), failure.random.to_bits(), "{text}");
        }
        let text = r#"{"message-id":"m","source":"s","attempt":1,"age":0,"failed-at":0,"error":{"code":"c"},"random":"0.5"}"#;
        let wrong = serde_json::from_str::<Failure>(text).unwrap_err();
        assert!(wrong.to_string().contains("is not a number"), "{wrong}");
        let array = text.replace(r#"{"code":"c"}"#, r#"["c"]"#);
        let wrong = serde_json::from_str::<Failure>(&array).unwrap_err();
        assert!(wrong.to_string().contains("expected an object"), "{wrong}");
    }

    #[test]
    fn random_is_uniform() {
        let mut tenths = [0_u32; 10];
        for message in 0..10_000 {
            let drawn = random(&message.to_string(), NonZeroU32::MIN);
            assert!((0.0..1.0).contains(&drawn));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0..10"
            )]
            let tenth = (drawn * 10.0) as usize;
            *tenths.get_mut(tenth).unwrap() += 1;
        }
        assert!(
            tenths.iter().all(|count| (880..1_120).contains(count)),
            "{tenths:?}"
        );
    }

    fn failure(attributes: Vec<(String, String)>) -> Failure {
        Failure {
            message_id: "m".to_owned(),
            source: "local:q".to_owned(),
            attempt: NonZeroU32::MIN,
            age: Milliseconds(0),
            failed_at: Timestamp(0),
            previous_delay: None,
            error: Error::new("HTTP 503", ""),
            attributes,
            random: 0.0,
        }
    }

    #[test]
    fn a_sender_can_neither_flood_a_policy_with_attributes_nor_displace_one_with_another() {
        let attribute = |name: &str, size: usize| (name.to_owned(), "y".repeat(size - name.len()));
        let tenant = attribute("tenant", 20);
        let most = attribute("zz", ATTRIBUTE_BYTES - 20);
        for (given, expected) in [
            (
                vec![most.clone(), tenant.clone()],
                vec![most.clone(), tenant.clone()],
            ),
            (
                vec![attribute("a", 400_000), tenant.clone(), most.clone()],
                vec![tenant.clone(), most.clone()],
            ),
            (
                vec![attribute("zz", ATTRIBUTE_BYTES - 19), tenant.clone()],
                vec![tenant.clone()],
            ),
            // Of two equally long ones, the first by name stays, whatever their order.
            (
                vec![attribute("b", 9_000), tenant.clone(), attribute("a", 9_000)],
                vec![tenant.clone(), attribute("a", 9_000)],
            ),
        ] {
            let failure = failure(given);
            let bounded = failure.within_bounds();
            assert!(bounded.attributes == expected);
            assert_eq!(bounded.within_bounds(), bounded);
        }
        let many = failure((0..5_000).map(|n| (n.to_string(), String::new())).collect());
        assert_eq!(many.within_bounds().attributes.len(), PAIRS);
    }

    #[test]
    fn a_long_id_becomes_its_digest_and_a_long_source_is_cut() {
        let of = |id: &str| Failure {
            message_id: id.to_owned(),
            source: "é".repeat(SOURCE_BYTES),
            ..failure(Vec::new())
        };
        let id = |text: &str| of(text).within_bounds().message_id.clone();
        let long = "x".repeat(ID_BYTES);
        assert_eq!(id(&long), long);
        let (one, other) = (id(&format!("{long}1")), id(&format!("{long}2")));
        assert_ne!(one, other);
        assert_eq!(one.len(), "sha256:".len() + 64);
        assert_eq!(of("m").within_bounds().source.len(), SOURCE_BYTES);
    }

    #[test]
    fn a_failure_within_bounds_is_borrowed() {
        assert!(matches!(
            failure(Vec::new()).within_bounds(),
            Cow::Borrowed(_)
        ));
    }
}
