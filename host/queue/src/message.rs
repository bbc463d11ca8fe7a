//! Received and outgoing messages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::Instant;

use super::MessageEnvelope;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_traces::TraceContext;

/// The part of SQS's 12 hours that is reserved for the requests.
const MAX_DELAY_MARGIN: Milliseconds = Milliseconds(60_000);

/// The longest delay by visibility, right after a receive.
pub const LONGEST_VISIBILITY: Milliseconds =
    Milliseconds(VisibilityTimeout::MAX.seconds() * 1_000 - MAX_DELAY_MARGIN.0);

/// Identifies one receive of a message, to delete the message or to change its visibility. Each receive has a new one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiptHandle(pub Arc<str>);

/// How long a message stays invisible: whole seconds, at most 12 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct VisibilityTimeout(u32);

impl VisibilityTimeout {
    /// 12 hours, the most that SQS allows.
    pub const MAX: Self = Self(43_200);

    /// Visible at once.
    pub const ZERO: Self = Self(0);

    /// This many seconds, at most [`VisibilityTimeout::MAX`].
    pub const fn from_seconds(seconds: u32) -> Self {
        match seconds {
            0..=43_200 => Self(seconds),
            _ => Self::MAX,
        }
    }

    /// Rounds up to whole seconds, so that no delay is shorter than requested; at most [`VisibilityTimeout::MAX`].
    pub fn rounded_up(duration: Duration) -> Self {
        let seconds = duration.as_nanos().div_ceil(1_000_000_000);
        Self(u32::try_from(seconds).unwrap_or(u32::MAX).min(Self::MAX.0))
    }

    /// In seconds.
    pub const fn seconds(self) -> u32 {
        self.0
    }

    /// As a [`Duration`].
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

/// The value of a message attribute, with its data type (`String`, `Number`, `Binary`, each with an optional suffix such as `Number.int`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A string or a number.
    Text {
        /// `String...` or `Number...`.
        data_type: String,
        /// The value.
        value: String,
    },
    /// Bytes.
    Binary {
        /// `Binary...`.
        data_type: String,
        /// The value.
        value: Vec<u8>,
    },
}

impl Attribute {
    /// An attribute of type `String`.
    pub fn string(value: impl Into<String>) -> Self {
        Self::Text {
            data_type: "String".to_owned(),
            value: value.into(),
        }
    }

    /// An attribute of type `Number`.
    pub fn number(value: impl ToString) -> Self {
        Self::Text {
            data_type: "Number".to_owned(),
            value: value.to_string(),
        }
    }

    /// As text: a binary value in base64.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text { value, .. } => value.clone(),
            Self::Binary { value, .. } => BASE64.encode(value),
        }
    }

    /// The bytes that it adds to the size of a message, without its name.
    pub fn size(&self) -> usize {
        match self {
            Self::Text { data_type, value } => data_type.len() + value.len(),
            Self::Binary { data_type, value } => data_type.len() + value.len(),
        }
    }
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The id that SQS assigned when it was sent; the same at every receive.
    pub id: String,
    /// The receipt handle of this receive.
    pub receipt_handle: ReceiptHandle,
    /// The body.
    pub body: Arc<str>,
    /// The sender's attributes.
    pub attributes: BTreeMap<String, Attribute>,
    /// The number of receives, including this one (`ApproximateReceiveCount`).
    pub receive_count: NonZeroU32,
    /// When it was sent.
    pub sent: Timestamp,
    /// Since when its queue has kept it: later than `sent` if the host has sent it again.
    pub kept_since: Timestamp,
    /// When it was first received.
    pub first_received: Timestamp,
    /// When it was received this time, on a monotonic clock: the rest of its 12 hours must not change when the system clock is set.
    pub received: Instant,
    /// The sender's identity, if SQS reports it.
    pub sender: Option<String>,
    /// The message group, on a FIFO queue.
    pub group: Option<String>,
    /// The deduplication id, on a FIFO queue.
    pub deduplication_id: Option<String>,
    /// The trace that it belongs to (`AWSTraceHeader`).
    pub trace_header: Option<String>,
    /// The ARN of the queue whose redrive policy moved it here (`DeadLetterQueueSourceArn`).
    pub dead_letter_source: Option<String>,
    /// What it carried along if the host has sent it again.
    pub envelope: Option<Box<MessageEnvelope>>,
    /// The span of the receive that brought it, if there is one.
    pub received_in: Option<TraceContext>,
}

impl Message {
    /// The longest delay that SQS still allows for this receive of the message: 12 hours from the receive, less a margin for the requests.
    pub fn max_delay(&self) -> Milliseconds {
        let elapsed = Milliseconds::from_duration(self.received.elapsed());
        Milliseconds(LONGEST_VISIBILITY.0.saturating_sub(elapsed.0))
    }

    /// The id under which it was received: another than its own if the host knows it again after it was sent again.
    pub fn received_as(&self) -> &str {
        let copy = self.envelope.as_deref().filter(|it| it.is_verified);
        let copy = copy.and_then(|it| it.other_id.as_deref());
        copy.unwrap_or(&self.id)
    }

    /// The id that it had first, as it says itself. Any sender can write that.
    pub fn original_id(&self) -> Option<Cow<'_, str>> {
        let claimed = self.envelope.as_deref().filter(|it| !it.is_verified);
        let claimed = claimed.and_then(|it| it.other_id.as_deref());
        claimed.map(Cow::Borrowed).or_else(|| {
            let attribute = self.attributes.get("BackstopMessageId")?;
            Some(Cow::Owned(attribute.to_text()))
        })
    }

    /// The size that SQS counts: the body, and each attribute's name, data type and value.
    pub fn size(&self) -> usize {
        message_size(&self.body, sizes(&self.attributes))
    }

    /// Its attributes as text, as a policy receives them.
    pub fn attribute_texts(&self) -> Vec<(String, String)> {
        let attributes = self.attributes.iter();
        attributes
            .map(|(name, value)| (name.clone(), value.to_text()))
            .collect()
    }
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// The body.
    pub body: Arc<str>,
    /// The attributes.
    pub attributes: BTreeMap<String, Attribute>,
    /// The message group; required on a FIFO queue.
    pub group: Option<String>,
    /// The deduplication id; required on a FIFO queue without content-based deduplication.
    pub deduplication_id: Option<String>,
    /// The trace that it belongs to; not counted in its size.
    pub trace_header: Option<String>,
    /// How long it is invisible at first: 15 minutes at most, rounded up to whole seconds. `None` for the queue's own delay, which is the only one that a FIFO queue allows.
    pub delay: Option<Duration>,
}

impl Outgoing {
    /// A message with this body and nothing else.
    pub fn new(body: impl Into<Arc<str>>) -> Self {
        Self {
            body: body.into(),
            ..Self::default()
        }
    }

    /// The size that SQS counts: the body, and each attribute's name, data type and value.
    pub fn size(&self) -> usize {
        message_size(&self.body, sizes(&self.attributes))
    }
}

fn sizes(attributes: &BTreeMap<String, Attribute>) -> impl Iterator<Item = (&str, usize)> {
    attributes
        .iter()
        .map(|(name, value)| (name.as_str(), value.size()))
}

/// The size that SQS counts: the body, and each attribute's name, and its data type and value, whose bytes come with the name. The trace header is not counted.
pub fn message_size<'a>(body: &str, attributes: impl Iterator<Item = (&'a str, usize)>) -> usize {
    body.len()
        + attributes
            .map(|(name, bytes)| name.len() + bytes)
            .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visibility_timeout_is_whole_seconds_rounded_up_to_twelve_hours_at_most() {
        for (milliseconds, seconds) in [
            (0, 0),
            (1, 1),
            (1_000, 1),
            (1_001, 2),
            (43_200_000, 43_200),
            (43_200_001, 43_200),
            (u64::MAX, 43_200),
        ] {
            assert_eq!(
                VisibilityTimeout::rounded_up(Duration::from_millis(milliseconds)).seconds(),
                seconds
            );
        }
    }

    #[test]
    fn the_size_counts_body_and_attributes() {
        let mut message = Outgoing::new("12345");
        assert_eq!(message.size(), 5);
        message
            .attributes
            .insert("n".to_owned(), Attribute::number(42));
        assert_eq!(message.size(), 5 + 1 + "Number".len() + 2);
    }
}
