//! One remembered message as compact bytes: its id, its receipt handle, and what a policy needs to decide about its failure again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::failure::{Error, Failure, Milliseconds, Timestamp, random};

/// The most bytes of a failure that are remembered. A policy can't decide again about a larger one.
const FAILURE_BYTES: usize = 4 << 10;

/// The bytes that are enough for most messages.
const BUFFER: usize = 1 << 10;

/// The payload that a policy read, by pointer.
pub(crate) type PayloadParts = BTreeMap<String, Option<String>>;

/// One remembered message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Packed<'a> {
    #[serde(borrow)]
    id: Id<'a>,
    #[serde(borrow)]
    handle: Option<Handle<'a>>,
    /// When the message was first sent.
    sent: u64,
    /// How often it had been received.
    receives: u32,
    #[serde(borrow)]
    failure: Option<PackedFailure<'a>>,
}

/// SQS's ids are UUIDs, which take less than half of their text.
#[derive(Debug, Serialize, Deserialize)]
enum Id<'a> {
    Uuid([u8; 16]),
    Text(&'a str),
}

/// SQS's handles are base64.
#[derive(Debug, Serialize, Deserialize)]
enum Handle<'a> {
    Bytes(std::borrow::Cow<'a, [u8]>),
    Text(&'a str),
}

/// A failure, without what its message and its queue have anyway.
#[derive(Debug, Serialize, Deserialize)]
struct PackedFailure<'a> {
    age: u32,
    kept: u32,
    failed_at: u64,
    previous_delay: Option<u32>,
    code: &'a str,
    message: &'a str,
    status: Option<u16>,
    retry_after: Option<u32>,
    #[serde(borrow)]
    details: Vec<(&'a str, &'a str)>,
    #[serde(borrow)]
    attributes: Vec<(&'a str, &'a str)>,
    #[serde(borrow)]
    payload: Vec<(&'a str, Option<&'a str>)>,
}

/// A remembered failure, as it was decided.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RememberedFailure {
    /// The failure.
    pub(crate) failure: Failure,
    /// How long its queue had kept the message.
    pub(crate) kept: Milliseconds,
    /// The parts of the payload that the policy read.
    pub(crate) payload: PayloadParts,
}

/// What is packed of a failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decidable<'a> {
    /// The failure.
    pub(super) failure: &'a Failure,
    /// How long its queue had kept the message.
    pub(super) kept: Milliseconds,
    /// The parts of the payload that the policy read.
    pub(super) payload: &'a PayloadParts,
}

/// Packs a message. A failure that is too large is left out.
pub(super) fn pack(
    id: &str,
    handle: Option<&str>,
    (sent, receives): (Timestamp, u32),
    decidable: Option<Decidable<'_>>,
) -> Box<[u8]> {
    let packed = Packed {
        id: Id::of(id),
        handle: handle.map(Handle::of),
        sent: sent.0,
        receives,
        failure: decidable.filter(Decidable::fits).map(PackedFailure::of),
    };
    // A copy in its exact size: cutting the grown buffer would leave holes in memory.
    let buffer = Vec::with_capacity(BUFFER);
    let buffer = postcard::to_extend(&packed, buffer).unwrap_or_default();
    buffer.as_slice().into()
}

impl Decidable<'_> {
    /// Whether it is small enough to be remembered.
    pub(super) fn fits(&self) -> bool {
        size(self) <= FAILURE_BYTES
    }
}

/// The texts whose length others choose.
fn size(decidable: &Decidable<'_>) -> usize {
    let Decidable {
        failure, payload, ..
    } = decidable;
    let pairs = failure.attributes.iter().chain(&failure.error.details);
    let pairs: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
    let parts = payload.iter();
    let parts: usize = parts
        .map(|(pointer, text)| pointer.len() + text.as_ref().map_or(0, String::len))
        .sum();
    failure.error.code.len() + failure.error.message.len() + pairs + parts
}

impl<'a> Id<'a> {
    fn of(id: &'a str) -> Self {
        let mut text = Uuid::encode_buffer();
        match Uuid::try_parse(id) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut text) == id => {
                Self::Uuid(uuid.into_bytes())
            }
            Ok(_) | Err(_) => Self::Text(id),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Uuid(bytes) => Uuid::from_bytes(*bytes).hyphenated().to_string(),
            Self::Text(text) => (*text).to_owned(),
        }
    }
}

impl<'a> Handle<'a> {
    fn of(handle: &'a str) -> Self {
        // The engine refuses every text that it would not write itself.
        match BASE64.decode(handle) {
            Ok(bytes) => Self::Bytes(bytes.into()),
            Err(_) => Self::Text(handle),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => BASE64.encode(bytes),
            Self::Text(text) => (*text).to_owned(),
        }
    }
}

impl<'a> PackedFailure<'a> {
    fn of(decidable: Decidable<'a>) -> Self {
        let Decidable {
            failure,
            kept,
            payload,
        } = decidable;
        let error = &failure.error;
        Self {
            age: failure.age.0,
            kept: kept.0,
            failed_at: failure.failed_at.0,
            previous_delay: failure.previous_delay.map(|delay| delay.0),
            code: &error.code,
            message: &error.message,
            status: error.status,
            retry_after: error.retry_after.map(|it| it.0),
            details: pairs(&error.details),
            attributes: pairs(&failure.attributes),
            payload: payload
                .iter()
                .map(|(pointer, text)| (pointer.as_str(), text.as_deref()))
                .collect(),
        }
    }
}

fn pairs(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

impl<'a> Packed<'a> {
    /// Reads what [`pack`] wrote.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    pub(super) fn id(&self) -> String {
        self.id.text()
    }

    pub(super) fn handle(&self) -> Option<String> {
        self.handle.as_ref().map(Handle::text)
    }

    pub(super) fn sent(&self) -> Timestamp {
        Timestamp(self.sent)
    }

    pub(super) const fn receives(&self) -> u32 {
        self.receives
    }

    /// When the attempt failed, if its failure is remembered.
    pub(super) fn failed_at(&self) -> Option<Timestamp> {
        self.failure.as_ref().map(|it| Timestamp(it.failed_at))
    }

    /// The failure of an attempt at a message of the queue with this ARN, if it is remembered.
    pub(super) fn failure(&self, source: &str, attempt: NonZeroU32) -> Option<RememberedFailure> {
        let it = self.failure.as_ref()?;
        let message_id = self.id();
        let failure = Failure {
            random: random(&message_id, attempt),
            message_id,
            source: source.to_owned(),
            attempt,
            age: Milliseconds(it.age),
            failed_at: Timestamp(it.failed_at),
            previous_delay: it.previous_delay.map(Milliseconds),
            error: Error {
                code: it.code.to_owned(),
                message: it.message.to_owned(),
                status: it.status,
                retry_after: it.retry_after.map(Milliseconds),
                details: owned(&it.details),
            },
            attributes: owned(&it.attributes),
        };
        let payload = it.payload.iter();
        Some(RememberedFailure {
            failure,
            kept: Milliseconds(it.kept),
            payload: payload
                .map(|(pointer, text)| ((*pointer).to_owned(), text.map(str::to_owned)))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::examples::ordinary_failure;
    use proptest::prelude::*;

    fn failure(id: &str) -> Failure {
        let attempt = NonZeroU32::new(7).unwrap();
        Failure {
            message_id: id.to_owned(),
            attempt,
            random: random(id, attempt),
            previous_delay: Some(Milliseconds(5)),
            error: Error {
                status: Some(503),
                retry_after: Some(Milliseconds(9)),
                details: vec![("a".to_owned(), "b".to_owned())],
                ..Error::new("HTTP 503", "busy")
            },
            attributes: vec![("tenant".to_owned(), "t-1".to_owned())],
            ..ordinary_failure()
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_again(
            id in "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}|\\PC{0,200}",
            handle in proptest::option::of("[A-Za-z0-9+/]{0,400}={0,2}|\\PC{0,50}"),
            pointer in "\\PC{0,20}",
            part in proptest::option::of("\\PC{0,20}"),
        ) {
            let failure = failure(&id);
            let payload: PayloadParts = [(pointer, part)].into();
            let decidable = Decidable { failure: &failure, kept: Milliseconds(3), payload: &payload };
            let bytes = pack(&id, handle.as_deref(), (Timestamp(11), 3), Some(decidable));
            let read = Packed::read(&bytes).unwrap();
            prop_assert_eq!(read.id(), id);
            prop_assert_eq!(read.handle(), handle);
            prop_assert_eq!((read.sent(), read.receives()), (Timestamp(11), 3));
            let remembered = read.failure(&failure.source, failure.attempt).unwrap();
            prop_assert_eq!(remembered, RememberedFailure { failure, kept: Milliseconds(3), payload });
        }
    }

    #[test]
    fn an_id_and_a_handle_of_sqs_take_less_than_their_text() {
        let handle = BASE64.encode([7; 300]);
        let id = "5fea7756-0ea4-451a-a703-a558b933e274";
        let bytes = pack(id, Some(&handle), (Timestamp(1_767_225_600_000), 1), None);
        assert!(bytes.len() < 300 + 16 + 16, "{}", bytes.len());
    }

    #[test]
    fn a_large_failure_is_left_out() {
        let mut failure = failure("m");
        failure.error.message = "x".repeat(FAILURE_BYTES);
        let decidable = Decidable {
            failure: &failure,
            kept: Milliseconds(0),
            payload: &PayloadParts::new(),
        };
        let bytes = pack("m", None, (Timestamp(0), 1), Some(decidable));
        assert!(bytes.len() < 20);
        let read = Packed::read(&bytes).unwrap();
        assert_eq!(read.failure("q", failure.attempt), None);
    }
}
