//! What is written on an envelope. Fields of somebody else's survive, and ours are left out where they say nothing.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use backstop_json::{Object, number, text, whole};
use serde::Serialize;
use serde_json::value::RawValue;

/// A number of seconds above this is one of milliseconds: it would be in the year 5138.
const SECONDS: f64 = 1e11;

/// The latest time, in milliseconds: the end of the year 9999.
const LATEST: f64 = 253_402_300_799_999.0;

/// The largest `attempt` of an envelope: whatever language a function is in, it and the next number are whole ones there.
pub const LARGEST_ATTEMPT: u32 = i32::MAX as u32;

/// The longest `id`, in bytes.
pub const LONGEST_ID: usize = 128;

/// Whether a text can be an event's id: 1 to [`LONGEST_ID`] characters of ASCII that can be seen, as a request id is. It may stand in a header, a key and a log.
pub fn is_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The metadata of one retried event.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The ordinal of the invocation that carries the envelope: 2 for the first retry.
    pub attempt: NonZeroU32,
    /// When the first attempt failed, in whole seconds since 1970.
    pub initial_timestamp: u64,
    /// Identifies the event through all of its attempts: the request id of the first. None in an envelope that is not ours.
    pub id: Option<String>,
    /// How long this attempt was put off, in milliseconds.
    pub previous_delay_ms: Option<u32>,
    /// Why the attempt before failed.
    pub last_error: Option<LastError>,
    /// The digests of the policy that decided on this attempt.
    pub policy: Option<String>,
    /// Set when the event came back from the dead-letter queue.
    pub redriven: Option<Redriven>,
    others: BTreeMap<String, Box<RawValue>>,
}

/// An error, in short.
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
    pub timestamp: u64,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl Metadata {
    /// With these two and nothing else.
    pub fn new(attempt: NonZeroU32, initial_timestamp: u64) -> Self {
        Self {
            attempt,
            initial_timestamp,
            id: None,
            previous_delay_ms: None,
            last_error: None,
            policy: None,
            redriven: None,
            others: BTreeMap::new(),
        }
    }

    /// The ordinal of the invocation that carries the envelope. One without an `id` is of the pattern that counts retries: 1 for the first of them, which is the second attempt.
    pub fn ordinal(&self) -> NonZeroU32 {
        match self.id {
            Some(_) => self.attempt,
            None => self.attempt.saturating_add(1),
        }
    }

    /// The metadata of an envelope; none of anything else. A field of ours that can't be what it says it is counts as one that is not there.
    pub(crate) fn of(mut fields: Object<'_>) -> Option<Self> {
        let attempt = NonZeroU32::new(whole(fields.take("attempt")?, LARGEST_ATTEMPT)?)?;
        let initial_timestamp = seconds(fields.take("initial_timestamp")?)?;
        let id = fields.take("id").and_then(text).filter(|id| is_id(id));
        let delay = fields.take("previous_delay_ms");
        let last_error = fields.take("last_error").and_then(Object::of);
        let redriven = fields.take("redriven").and_then(Object::of);
        Some(Self {
            attempt,
            initial_timestamp,
            id,
            previous_delay_ms: delay.and_then(|delay| whole(delay, u32::MAX)),
            last_error: last_error.and_then(|error| LastError::of(&error)),
            policy: fields.take("policy").and_then(text),
            redriven: redriven.and_then(|redriven| Redriven::of(&redriven)),
            others: fields
                .into_iter()
                .map(|(name, value)| (name, value.to_owned()))
                .collect(),
        })
    }

    pub(crate) fn to_json(&self) -> String {
        let mut fields = vec![
            format!("\"attempt\":{}", self.attempt.get().min(LARGEST_ATTEMPT)),
            format!("\"initial_timestamp\":{}", self.initial_timestamp),
        ];
        let ours = [
            ("id", json(self.id.as_ref())),
            ("previous_delay_ms", json(self.previous_delay_ms.as_ref())),
            ("last_error", json(self.last_error.as_ref())),
            ("policy", json(self.policy.as_ref())),
            ("redriven", json(self.redriven.as_ref())),
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
            attempts: fields.whole("attempts", LARGEST_ATTEMPT)?,
            timestamp: seconds(fields.get("timestamp")?)?,
        })
    }
}

/// A time in whole seconds since 1970, of a number of seconds or milliseconds. None before 1970 and none after the year 9999.
fn seconds(value: &RawValue) -> Option<u64> {
    let given = number(value).filter(|given| (0.0..=LATEST).contains(given))?;
    let seconds = if given > SECONDS { given / 1e3 } else { given };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and cut to whole seconds on purpose"
    )]
    let whole = seconds as u64;
    Some(whole)
}

fn json<T: Serialize>(value: Option<&T>) -> Option<String> {
    serde_json::to_string(value?).ok()
}
