//! The input of a decision: one failed attempt of one message, as plain data.
//!
//! An [`Error`] has a code, which policies classify, and optionally a status and the time after which the other side asked to be called again:
//!
//! ```
//! use backstop_core::failure::{Error, Milliseconds};
//!
//! let busy = Error {
//!     status: Some(429),
//!     retry_after: Some(Milliseconds(30_000)),
//!     ..Error::new("HTTP 429", "too many requests")
//! };
//! assert_eq!(busy.code, "HTTP 429");
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::text::cut;

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

/// The code of an error that says that another owner does the same work now. With a `retry-after`, the end of the owner's lease, it [is no attempt](Error::is_in_progress).
pub const IN_PROGRESS: &str = "InProgress";

/// A duration in whole milliseconds, the unit of the contract; saturates at 49 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub u32);

impl Milliseconds {
    /// Rounds up, so that no wait is shorter than requested.
    pub fn from_duration(duration: Duration) -> Self {
        let milliseconds = duration.as_nanos().div_ceil(1_000_000);
        Self(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }

    /// The same duration as a [`Duration`].
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&backstop_backoff::format_duration(self.0.into()))
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The duration from `earlier` to this; zero if `earlier` is later, which happens with the clocks of two machines.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// In the format of RFC 3339, to the second.
    pub fn rfc3339(self) -> String {
        let milliseconds = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(milliseconds / 1_000 * 1_000)
            .unwrap_or(jiff::Timestamp::MAX)
            .to_string()
    }

    /// The point in time that is `duration` later; saturates.
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}

/// Why an attempt failed, as its source reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Error {
    /// The type or code: `ThrottlingException`, `ECONNRESET`, `HTTP 503`, `exit 3`; at most [`MESSAGE_BYTES`].
    pub code: String,
    /// The text, at most [`MESSAGE_BYTES`].
    #[serde(default)]
    pub message: String,
    /// The HTTP status, if the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the failing service asked to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Milliseconds>,
    /// Further details from the source, by name; at most [`DETAIL_BYTES`] in total, and [`PAIRS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<(String, String)>,
}

impl Error {
    /// An error with this code and text, without a status.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// Whether another owner does the same work now, for as long as the `retry-after` says. Such an error is no attempt: no limit on attempts counts it.
    ///
    /// ```
    /// use backstop_core::failure::{Error, IN_PROGRESS, Milliseconds};
    ///
    /// let elsewhere = Error {
    ///     retry_after: Some(Milliseconds(5_000)),
    ///     ..Error::new(IN_PROGRESS, "the same work is in progress elsewhere")
    /// };
    /// assert!(elsewhere.is_in_progress());
    /// // Without the end of a lease, nobody knows that it has one.
    /// assert!(!Error::new(IN_PROGRESS, "").is_in_progress());
    /// ```
    pub fn is_in_progress(&self) -> bool {
        self.code == IN_PROGRESS && self.retry_after.is_some_and(|left| left > Milliseconds(0))
    }

    /// The same error within the limits of the contract: code and text cut, the largest details left out.
    pub fn within_bounds(mut self) -> Self {
        cut(&mut self.code, MESSAGE_BYTES);
        cut(&mut self.message, MESSAGE_BYTES);
        leave_out_largest(&mut self.details, DETAIL_BYTES);
        self
    }

    fn is_within_bounds(&self) -> bool {
        self.code.len() <= MESSAGE_BYTES
            && self.message.len() <= MESSAGE_BYTES
            && fits(&self.details, DETAIL_BYTES)
    }
}

/// Whether names and values have at most `bytes` bytes in total, in at most [`PAIRS`] pairs.
fn fits(pairs: &[(String, String)], bytes: usize) -> bool {
    pairs.len() <= PAIRS && pairs.iter().map(size).sum::<usize>() <= bytes
}

fn size((name, value): &(String, String)) -> usize {
    name.len() + value.len()
}

/// Removes pairs until the others [fit](fits): the largest first, and among equally large ones the last by name. A long pair never displaces a short one, whatever their order.
fn leave_out_largest(pairs: &mut Vec<(String, String)>, bytes: usize) {
    if fits(pairs, bytes) {
        return;
    }
    let mut smallest_first: Vec<_> = pairs.iter().enumerate().collect();
    smallest_first.sort_by_key(|(_, pair)| (size(pair), *pair));
    let mut total = 0;
    let kept: BTreeSet<usize> = smallest_first
        .into_iter()
        .take(PAIRS)
        .take_while(|(_, pair)| {
            total += size(pair);
            total <= bytes
        })
        .map(|(index, _)| index)
        .collect();
    let mut index = 0;
    pairs.retain(|_| {
        index += 1;
        kept.contains(&(index - 1))
    });
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message.as_str() {
            "" => f.write_str(&self.code),
            message => write!(f, "{}: {message}", self.code),
        }
    }
}

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
    match id.len() > ID_BYTES {
        true => Cow::Owned(format!("sha256:{}", hex::encode(Sha256::digest(id)))),
        false => Cow::Borrowed(id),
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

    #[test]
    fn an_error_is_cut_to_the_limits_of_the_contract() {
        let detail = |size: usize| ("x".to_owned(), "y".repeat(size - 1));
        let error = Error {
            message: "é".repeat(MESSAGE_BYTES),
            details: vec![detail(4_000), detail(200), detail(96)],
            ..Error::new("HTTP 500", "")
        };
        let error = error.within_bounds();
        assert_eq!(error.message.len(), MESSAGE_BYTES);
        assert_eq!(error.details, [detail(200), detail(96)]);
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
