//! The metadata of an envelope. Unknown fields are kept, and empty fields of ours are omitted.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use backstop_json::{Object, integer, number, text};
use serde::Serialize;
use serde_json::value::RawValue;

/// A timestamp above this is in milliseconds: in seconds it would be in the year 5138.
const SECONDS: u64 = 100_000_000_000;

/// The latest time, in milliseconds: the end of the year 9999.
const LATEST: f64 = 253_402_300_799_999.0;

/// The largest `attempt` of an envelope. Every language has an integer type for it and its successor.
pub const LARGEST_ATTEMPT: u32 = i32::MAX as u32;

/// The longest `id`, in bytes.
pub const LONGEST_ID: usize = 128;

/// Whether a text is a valid event id: 1 to [`LONGEST_ID`] visible ASCII characters, like a request id. Such an id is safe in a header, a key and a log.
pub fn is_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text has the form of a `traceparent`. Who uses it looks closer.
#[expect(clippy::ptr_arg, reason = "a filter passes a reference to what it has")]
fn is_traceparent(text: &String) -> bool {
    text.len() == 55
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// The metadata of one retried event.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The ordinal of the invocation that carries the envelope: 2 for the first retry.
    pub attempt: NonZeroU32,
    /// When the first attempt failed, in whole seconds since 1970.
    pub initial_timestamp: u64,
    /// Identifies the event in all of its attempts: the request id of the first. `None` in an envelope from another implementation.
    pub id: Option<String>,
    /// The delay before this attempt, in milliseconds.
    pub previous_delay_ms: Option<u32>,
    /// Why the previous attempt failed.
    pub last_error: Option<LastError>,
    /// The digests of the policy that decided on this attempt.
    pub policy: Option<String>,
    /// Set if the event was moved back from the dead-letter queue.
    pub redriven: Option<Redriven>,
    /// The span that invoked this attempt, as a W3C `traceparent`.
    pub traceparent: Option<String>,
    /// The span that invoked the first attempt.
    pub first_traceparent: Option<String>,
    others: BTreeMap<String, Box<RawValue>>,
}

/// A short form of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// Its type or code.
    pub code: String,
    /// The start of its text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The last time that the event was moved back from the dead-letter queue: its policy counts from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Redriven {
    /// How many attempts had been made by then.
    pub attempts: u32,
    /// When, in whole seconds since 1970.
    #[serde(serialize_with = "serialize_seconds")]
    pub timestamp: u64,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl Metadata {
    /// Metadata with only these two fields.
    pub fn new(attempt: NonZeroU32, initial_timestamp: u64) -> Self {
        Self {
            attempt,
            initial_timestamp,
            id: None,
            previous_delay_ms: None,
            last_error: None,
            policy: None,
            redriven: None,
            traceparent: None,
            first_traceparent: None,
            others: BTreeMap::new(),
        }
    }

    /// The ordinal of the invocation that carries the envelope. An envelope without an `id` follows the pattern that counts retries: its 1 is the first retry, which is the second attempt.
    pub fn ordinal(&self) -> NonZeroU32 {
        ordinal(self.attempt, self.id.is_some())
    }

    /// The metadata of an envelope; `None` if this is something else. An optional field with an invalid value counts as missing.
    pub(crate) fn of(mut fields: Object<'_>) -> Option<Self> {
        let attempt = NonZeroU32::new(integer(fields.take("attempt")?, LARGEST_ATTEMPT)?)?;
        let initial_timestamp = seconds(fields.take("initial_timestamp")?)?;
        let id = fields.take("id").and_then(text).filter(|id| is_id(id));
        let delay = fields.take("previous_delay_ms");
        let last_error = fields.take("last_error").and_then(Object::of);
        let redriven = fields.take("redriven").and_then(Object::of);
        Some(Self {
            attempt,
            initial_timestamp,
            id,
            previous_delay_ms: delay.and_then(|delay| integer(delay, u32::MAX)),
            last_error: last_error.and_then(|error| LastError::of(&error)),
            policy: fields.take("policy").and_then(text),
            redriven: redriven.and_then(|redriven| Redriven::of(&redriven)),
            traceparent: fields
                .take("traceparent")
                .and_then(text)
                .filter(is_traceparent),
            first_traceparent: fields
                .take("first_traceparent")
                .and_then(text)
                .filter(is_traceparent),
            others: fields
                .into_iter()
                .map(|(name, value)| (name, value.to_owned()))
                .collect(),
        })
    }

    pub(crate) fn to_json(&self) -> String {
        let mut fields = vec![
            format!("\"attempt\":{}", self.attempt.get().min(LARGEST_ATTEMPT)),
            format!("\"initial_timestamp\":{}", written(self.initial_timestamp)),
        ];
        let ours = [
            ("id", json(self.id.as_ref())),
            ("previous_delay_ms", json(self.previous_delay_ms.as_ref())),
            ("last_error", json(self.last_error.as_ref())),
            ("policy", json(self.policy.as_ref())),
            ("redriven", json(self.redriven.as_ref())),
            ("traceparent", json(self.traceparent.as_ref())),
            ("first_traceparent", json(self.first_traceparent.as_ref())),
        ];
        for (name, value) in ours {
            fields.extend(value.map(|value| format!("\"{name}\":{value}")));
        }
        for (name, value) in &self.others {
            fields.extend(json(Some(name)).map(|name| format!("{name}:{}", value.get())));
        }
        format!("{{{}}}", fields.join(","))
    }
}

impl LastError {
    fn of(fields: &Object<'_>) -> Option<Self> {
        Some(Self {
            code: fields.text("code")?,
            message: fields.text("message").unwrap_or_default(),
        })
    }
}

impl Redriven {
    fn of(fields: &Object<'_>) -> Option<Self> {
        Some(Self {
            attempts: fields.integer("attempts", LARGEST_ATTEMPT)?,
            timestamp: seconds(fields.get("timestamp")?)?,
        })
    }
}

/// What an envelope says of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// See [`Metadata::ordinal`].
    pub ordinal: NonZeroU32,
    /// When the first attempt failed, in seconds since 1970.
    pub initial_timestamp: u64,
    /// Whether it has a valid id.
    pub has_id: bool,
}

impl Opened {
    /// Reads the metadata of an event that another language has parsed: an object with exactly the two keys, whose metadata is an object with these values. NaN stands for a value that is no number. The rules are those of [`Envelope::open`](crate::Envelope::open).
    pub fn of(attempt: f64, initial_timestamp: f64, id: Option<&str>) -> Option<Self> {
        let is_whole =
            (1.0..=f64::from(LARGEST_ATTEMPT)).contains(&attempt) && attempt % 1.0 == 0.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number within the bounds of the type"
        )]
        let attempt = NonZeroU32::new(attempt as u32).filter(|_| is_whole)?;
        let has_id = id.is_some_and(is_id);
        Some(Self {
            ordinal: ordinal(attempt, has_id),
            initial_timestamp: in_seconds(initial_timestamp)?,
            has_id,
        })
    }
}

/// Without an id, an envelope follows the pattern that counts retries.
const fn ordinal(attempt: NonZeroU32, has_id: bool) -> NonZeroU32 {
    if has_id {
        attempt
    } else {
        attempt.saturating_add(1)
    }
}

/// Converts a number of seconds or milliseconds since 1970 to whole seconds. `None` before 1970 and after the year 9999.
fn seconds(value: &RawValue) -> Option<u64> {
    in_seconds(number(value)?)
}

fn in_seconds(given: f64) -> Option<u64> {
    if !(0.0..=LATEST).contains(&given) {
        return None;
    }
    let seconds = if given > SECONDS as f64 {
        given / 1e3
    } else {
        given
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and truncated to whole seconds on purpose"
    )]
    let truncated = seconds as u64;
    Some(truncated)
}

/// A time in seconds as it is written, so that it is read as the same time: in milliseconds where seconds would be taken for them.
const fn written(seconds: u64) -> u64 {
    if seconds > SECONDS {
        seconds.saturating_mul(1_000)
    } else {
        seconds
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn serialize_seconds<S: serde::Serializer>(
    seconds: &u64,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(written(*seconds))
}

fn json<T: Serialize>(value: Option<&T>) -> Option<String> {
    serde_json::to_string(value?).ok()
}
