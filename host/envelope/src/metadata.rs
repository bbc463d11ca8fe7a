//! What is written on an envelope. Fields of somebody else's survive, and ours are left out where they say nothing.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A number of seconds above this is one of milliseconds: it would be in the year 5138.
const SECONDS: f64 = 1e11;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// Its type or code.
    pub code: String,
    /// The start of its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The last time that the event was moved back from the dead-letter queue: its policy counts from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut others: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
        let attempt = take(&mut others, "attempt")?;
        let first: f64 = take(&mut others, "initial_timestamp")?;
        if first < 0.0 {
            return None;
        }
        let first = if first > SECONDS { first / 1e3 } else { first };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and cut to whole seconds on purpose"
        )]
        let initial_timestamp = first as u64;
        Some(Self {
            attempt,
            initial_timestamp,
            id: take(&mut others, "id"),
            previous_delay_ms: take(&mut others, "previous_delay_ms"),
            last_error: take(&mut others, "last_error"),
            policy: take(&mut others, "policy"),
            redriven: take(&mut others, "redriven"),
            others,
        })
    }

    pub(crate) fn to_json(&self) -> String {
        let mut fields = vec![
            format!("\"attempt\":{}", self.attempt),
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

/// The value of this name, if it is of the kind that is expected; gone from the rest in any case.
fn take<T: DeserializeOwned>(
    fields: &mut BTreeMap<String, Box<RawValue>>,
    name: &str,
) -> Option<T> {
    serde_json::from_str(fields.remove(name)?.get()).ok()
}

fn json<T: Serialize>(value: Option<&T>) -> Option<String> {
    serde_json::to_string(value?).ok()
}
