//! How the messages of a queue wait for their next attempt: invisible in their queue, or sent to it again.
//!
//! By visibility a message waits for 12 hours at most, and SQS stops a queue with 120,000 invisible messages. A message that is sent again has neither limit: SQS delays it for 15 minutes at most, so it makes hop after hop until it is due. Its [`MessageEnvelope`] keeps it the same message.

mod envelope;
mod in_flight;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::Counter;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::decision::{Hold, Reach, Resend, is_kept};
use crate::failure::{Milliseconds, Timestamp};
use crate::queue::{
    BatchedSends, Description, LONGEST_SEND_DELAY, Message, MessageEnvelope, Queue, QueueError,
    Requests, SubmitError, short_name,
};
use crate::telemetry;
use backstop_queue::envelope::{ENVELOPE, EnvelopeKeys, has_room};
use in_flight::InFlight;

use envelope::Envelopes;
pub use envelope::after;
pub use in_flight::{HIGH, LIMIT};

/// How the failed messages of a queue are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HoldMode {
    /// Invisible in their queue.
    Visibility,
    /// Sent to their queue again.
    Resend,
    /// By visibility, as long as that is possible; else sent again.
    #[default]
    Auto,
}

impl FromStr for HoldMode {
    type Err = UnknownHold;

    fn from_str(text: &str) -> Result<Self, UnknownHold> {
        match text.trim() {
            "visibility" => Ok(Self::Visibility),
            "resend" => Ok(Self::Resend),
            "auto" => Ok(Self::Auto),
            _ => Err(UnknownHold(text.to_owned())),
        }
    }
}

/// A text that names no [`HoldMode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to hold a message: expected visibility, resend or auto")]
pub struct UnknownHold(String);

impl HoldMode {
    /// The mode of a queue: a message of a FIFO queue that is sent again would go behind its group.
    pub fn of(self, queue: &Description) -> Self {
        if queue.fifo { Self::Visibility } else { self }
    }
}

/// The reason of a dead letter whose message could neither be sent again nor held by visibility.
pub fn unsendable(error: &impl std::fmt::Display) -> String {
    format!("it can't be sent again, and its queue would drop it before its next attempt: {error}")
}

/// How long one hop takes at most. The queue must not drop a message before it becomes visible.
pub fn longest_hop(queue: &Description) -> Duration {
    LONGEST_SEND_DELAY.min(queue.retention.as_duration() / 2)
}

/// The part of a queue's retention that is reserved for a message to be received again, or a tenth of the retention if that is less.
const RETENTION_MARGIN: Duration = Duration::from_secs(15 * 60);

/// How long a queue with this retention can hold a message by visibility.
pub fn longest_hold(retention: Milliseconds) -> Duration {
    let retention = retention.as_duration();
    retention - RETENTION_MARGIN.min(retention / 10)
}

/// How messages are held, as configured.
#[derive(Debug, Clone)]
pub struct HoldSettings {
    /// By which means.
    pub mode: HoldMode,
    /// The keys of the fleet. Without them, a host knows its own envelopes only.
    pub keys: Option<EnvelopeKeys>,
    /// The age from which a message is not retried.
    pub max_age: Option<Milliseconds>,
}

/// Holds the messages of one queue.
pub struct Holds {
    mode: HoldMode,
    envelopes: Envelopes,
    /// Whether every envelope of the fleet can be verified.
    has_keys: bool,
    name: String,
    max_message_bytes: usize,
    longest_hop: Duration,
    retention: Milliseconds,
    in_flight: Arc<InFlight>,
    sends: BatchedSends,
    has_warned: AtomicBool,
    has_met_strangers: AtomicBool,
    /// Whether [`HoldMode::Auto`] sends every message again, since nothing else keeps it in its queue.
    prefers_resend: AtomicBool,
    by_visibility: Counter,
    by_resend: Counter,
    hops: Counter,
}

impl Holds {
    /// Holds the messages of this queue. A send waits for at most `linger` to share a request with others.
    pub fn start(
        settings: HoldSettings,
        name: &str,
        queue: &Arc<dyn Queue>,
        description: &Description,
        linger: Duration,
        requests: &Arc<Requests>,
    ) -> Self {
        let metrics = telemetry::Queue::named(name);
        let has_keys = settings.keys.is_some();
        let own_keys = || EnvelopeKeys::of_this_process(rand::random());
        let keys = settings.keys.unwrap_or_else(own_keys);
        Self {
            mode: settings.mode.of(description),
            envelopes: Envelopes::of(description, keys, settings.max_age),
            has_keys,
            name: short_name(queue.url()).to_owned(),
            max_message_bytes: description.max_message_bytes,
            longest_hop: longest_hop(description),
            retention: description.retention,
            in_flight: InFlight::of(queue, description),
            sends: BatchedSends::start(queue, linger.into(), requests),
            has_warned: AtomicBool::new(false),
            has_met_strangers: AtomicBool::new(false),
            prefers_resend: AtomicBool::new(false),
            by_visibility: metrics.holds(Hold::Visibility),
            by_resend: metrics.holds(Hold::Resend),
            hops: metrics.hops(),
        }
    }

    /// Opens the envelope of a received message, if it has one. What an envelope that this host can't verify says concerns its own message only.
    pub fn open(&self, message: &mut Message, now: Timestamp) {
        let is_of_stranger = self.envelopes.open(message, now);
        if is_of_stranger && self.has_keys && !self.has_met_strangers.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                queue = self.name,
                id = message.id,
                "no key of envelope-key-file verifies the attribute {ENVELOPE} of a message, so it keeps the id that SQS gave it: a host without the key sent it again, it was redriven, or a stranger wrote the attribute. This is logged once"
            );
        }
    }

    /// Whether messages of this queue are sent again at all.
    pub fn sends_again(&self) -> bool {
        self.mode != HoldMode::Visibility
    }

    /// Sets whether [`HoldMode::Auto`] sends every message again.
    pub fn set_prefers_resend(&self, prefers: bool) {
        self.prefers_resend.store(prefers, Ordering::Relaxed);
    }

    /// How long a message can be held now, `visibility` by visibility.
    pub fn reach(&self, message: &Message, visibility: Milliseconds, now: Timestamp) -> Reach {
        Reach {
            visibility,
            kept: Milliseconds::from_duration(now.since(message.kept_since)),
            resend: self.resend(message),
        }
    }

    fn resend(&self, message: &Message) -> Resend {
        let wanted = match self.mode {
            HoldMode::Visibility => return Resend::Never,
            HoldMode::Resend => Resend::Always,
            HoldMode::Auto if self.prefers_resend.load(Ordering::Relaxed) => Resend::Always,
            HoldMode::Auto if self.in_flight.is_high() => Resend::Always,
            HoldMode::Auto => Resend::IfNeeded,
        };
        if has_room(message, self.max_message_bytes) {
            return wanted;
        }
        if wanted == Resend::Always {
            self.warn_of_no_room();
        }
        Resend::Never
    }

    /// Notes that the delay of a message was shortened: in the log, if only its envelope would have made the whole delay possible.
    pub fn shortened(&self, message: &Message) {
        if self.mode != HoldMode::Visibility && !has_room(message, self.max_message_bytes) {
            self.warn_of_no_room();
        }
    }

    /// Once for each queue.
    fn warn_of_no_room(&self) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                queue = self.name,
                "a message has no room for the attribute {ENVELOPE} (SQS allows 10 attributes, and this queue messages of {} bytes): such messages are held by visibility, for at most 12 hours",
                self.max_message_bytes
            );
        }
    }

    /// When the queue drops this copy of a message at the earliest, less a margin to receive it in.
    pub fn expires(&self, message: &Message) -> Timestamp {
        message.kept_since.plus(longest_hold(self.retention))
    }

    /// Whether the queue keeps this copy of a message for so long, by the rule of the decision.
    pub(crate) fn keeps(&self, message: &Message, now: Timestamp, hidden: Duration) -> bool {
        let kept = Milliseconds::from_duration(now.since(message.kept_since));
        is_kept(self.retention, kept, Milliseconds::from_duration(hidden))
    }

    /// Notes that a message is held by visibility.
    pub fn hidden(&self) {
        self.by_visibility.increment(1);
        self.in_flight.add();
    }

    /// Notes a failed request: SQS reports that too many messages are in flight.
    pub fn failed(&self, error: &QueueError) {
        if error.code.ends_with("OverLimit") {
            self.in_flight.over_limit();
        }
    }

    /// Sends a message again that waits until its envelope's due time. It may be deleted once this succeeds. Returns how long its hop takes, and the id of the copy, if the queue has said it.
    pub async fn send_again(
        &self,
        message: &Message,
        envelope: &MessageEnvelope,
        now: Timestamp,
        until: Instant,
    ) -> Result<(Duration, Option<String>), SubmitError> {
        let left = envelope.due.since(now).min(self.longest_hop);
        let id = self
            .sends
            .send(self.envelopes.seal(envelope, message, left), until)
            .await?;
        self.by_resend.increment(1);
        if envelope.hops > 0 {
            self.hops.increment(1);
        }
        Ok((left, id))
    }
}
