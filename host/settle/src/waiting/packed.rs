//! One remembered message as compact bytes: its id, its receipt handle, and what a policy needs to decide about its failure again.

use std::borrow::Cow;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::failure::{Error, Failure, Milliseconds, Timestamp, random};
use backstop_decider::{PayloadParts, RememberedFailure};

/// The most bytes of a failure that are remembered. A policy can't decide again about a larger one.
const FAILURE_BYTES: usize = 4 << 10;

/// The bytes that are enough for most messages.
const BUFFER: usize = 1 << 10;

/// One remembered message.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    own: Own<'a>,
    failure: &'a [u8],
}

/// A message as compact bytes.
#[derive(Debug)]
pub(super) struct Packing {
    bytes: Vec<u8>,
    /// So many bytes are the message's own. Those of its failure follow, which others may have too.
    own: usize,
}

/// What a message has for itself.
#[derive(Debug, Serialize, Deserialize)]
struct Own<'a> {
    #[serde(borrow)]
    id: Id<'a>,
    #[serde(borrow)]
    handle: Option<Handle<'a>>,
    /// When the message was first sent.
    sent: u64,
    /// How often it had been received.
    receives: u32,
    /// `None` if its failure is not remembered.
    failed: Option<Failed>,
}

/// When a message failed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Failed {
    /// After it was sent.
    after: i64,
    age: u32,
    kept: u32,
    previous_delay: Option<u32>,
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
    Bytes(#[serde(borrow, serialize_with = "all_at_once")] Cow<'a, [u8]>),
    Text(&'a str),
}

/// What a failure does not have in common with the first one of its cause: often a request id.
#[derive(Debug, Serialize, Deserialize)]
enum Difference<'a> {
    Uuid([u8; 16]),
    Bytes(#[serde(borrow, serialize_with = "all_at_once")] Cow<'a, [u8]>),
}

/// A failure, without what its message and its queue have for themselves.
#[derive(Debug, Serialize, Deserialize)]
struct PackedFailure<'a> {
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
) -> Packing {
    let decidable = decidable.filter(Decidable::fits);
    let own = Own {
        id: Id::of(id),
        handle: handle.map(Handle::of),
        sent: sent.0,
        receives,
        failed: decidable.map(|it| Failed::of(&it, sent)),
    };
    let bytes = Vec::with_capacity(BUFFER);
    let mut bytes = postcard::to_extend(&own, bytes).unwrap_or_default();
    let own = bytes.len();
    if let Some(decidable) = decidable {
        bytes = postcard::to_extend(&PackedFailure::of(decidable), bytes).unwrap_or_default();
    }
    Packing { bytes, own }
}

impl Packing {
    #[cfg(test)]
    pub(super) fn of(own: &[u8], failure: &[u8]) -> Self {
        Self {
            bytes: [own, failure].concat(),
            own: own.len(),
        }
    }

    /// When the message was first sent.
    pub(super) fn sent(&self) -> Option<Timestamp> {
        let own = postcard::from_bytes::<Own<'_>>(self.bytes.get(..self.own)?);
        own.ok().map(|own| Timestamp(own.sent))
    }

    /// What others may have too.
    pub(super) fn failure(&self) -> &[u8] {
        self.bytes.get(self.own..).unwrap_or_default()
    }

    /// The bytes without the start and the end that the failure has in common with this one.
    pub(super) fn without(&self, first: &[u8]) -> Vec<u8> {
        let (own, failure) = self.bytes.split_at(self.own);
        let start = same(failure.iter().zip(first));
        let (rest, rest_of_first) = (failure.get(start..), first.get(start..));
        let rest = rest.unwrap_or_default();
        let end = same(
            rest.iter()
                .rev()
                .zip(rest_of_first.unwrap_or_default().iter().rev()),
        );
        let record = Vec::with_capacity(self.bytes.len() + 16);
        let record = postcard::to_extend(&(self.own, start, end), record);
        let mut record = record.unwrap_or_default();
        record.extend_from_slice(own);
        let middle = rest.get(..rest.len() - end).unwrap_or_default();
        postcard::to_extend(&Difference::of(middle), record).unwrap_or_default()
    }
}

/// How many of the first pairs are of one value.
fn same<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

/// All bytes of a message of which [`Packing::without`] has left some out.
pub(super) fn restore(record: &[u8], first: &[u8]) -> Option<Vec<u8>> {
    packing(record, first).map(|packing| packing.bytes)
}

/// A message of which [`Packing::without`] has left some bytes out.
pub(super) fn packing(record: &[u8], first: &[u8]) -> Option<Packing> {
    let (lengths, rest) = postcard::take_from_bytes(record).ok()?;
    let (length, start, end): (usize, usize, usize) = lengths;
    let (own, middle) = rest.split_at_checked(length)?;
    let middle: Difference<'_> = postcard::from_bytes(middle).ok()?;
    let end = first.get(first.len().checked_sub(end)?..)?;
    Some(Packing {
        bytes: [own, first.get(..start)?, &middle.bytes(), end].concat(),
        own: length,
    })
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

impl<'a> Difference<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        match str::from_utf8(bytes).map(Id::of) {
            Ok(Id::Uuid(uuid)) => Self::Uuid(uuid),
            Ok(Id::Text(_)) | Err(_) => Self::Bytes(bytes.into()),
        }
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Uuid(uuid) => Id::Uuid(*uuid).text().into_bytes().into(),
            Self::Bytes(bytes) => bytes.as_ref().into(),
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

/// Not byte by byte.
fn all_at_once<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl Failed {
    fn of(Decidable { failure, kept, .. }: &Decidable<'_>, sent: Timestamp) -> Self {
        Self {
            after: failure.failed_at.0.wrapping_sub(sent.0).cast_signed(),
            age: failure.age.0,
            kept: kept.0,
            previous_delay: failure.previous_delay.map(|delay| delay.0),
        }
    }

    const fn at(self, sent: u64) -> Timestamp {
        Timestamp(sent.wrapping_add_signed(self.after))
    }
}

impl<'a> PackedFailure<'a> {
    fn of(decidable: Decidable<'a>) -> Self {
        let Decidable {
            failure, payload, ..
        } = decidable;
        let error = &failure.error;
        Self {
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
        let (own, failure) = postcard::take_from_bytes(bytes).ok()?;
        Some(Self { own, failure })
    }

    pub(super) fn id(&self) -> String {
        self.own.id.text()
    }

    pub(super) fn handle(&self) -> Option<String> {
        self.own.handle.as_ref().map(Handle::text)
    }

    pub(super) fn sent(&self) -> Timestamp {
        Timestamp(self.own.sent)
    }

    pub(super) const fn receives(&self) -> u32 {
        self.own.receives
    }

    /// When the attempt failed, if its failure is remembered.
    pub(super) fn failed_at(&self) -> Option<Timestamp> {
        self.own.failed.map(|it| it.at(self.own.sent))
    }

    /// The failure of an attempt at a message of the queue with this ARN, if it is remembered.
    pub(super) fn failure(&self, source: &str, attempt: NonZeroU32) -> Option<RememberedFailure> {
        let failed = self.own.failed?;
        let it: PackedFailure<'_> = postcard::from_bytes(self.failure).ok()?;
        let message_id = self.id();
        let failure = Failure {
            random: random(&message_id, attempt),
            message_id,
            source: source.to_owned(),
            attempt,
            age: Milliseconds(failed.age),
            failed_at: failed.at(self.own.sent),
            previous_delay: failed.previous_delay.map(Milliseconds),
            error: Error::new(it.code, it.message)
                .status(it.status)
                .retry_after(it.retry_after.map(Milliseconds))
                .details(owned(&it.details)),
            attributes: owned(&it.attributes),
        };
        let payload = it.payload.iter();
        Some(RememberedFailure {
            failure,
            kept: Milliseconds(failed.kept),
            payload: payload
                .map(|(pointer, text)| ((*pointer).to_owned(), text.map(str::to_owned)))
                .collect(),
        })
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
