//! What a message that was sent again carries along: one attribute, signed with the keys of its fleet.

mod attribute;
mod keys;
mod trace;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_traces::TraceContext;

pub use attribute::{CARRIED_BYTES, ENVELOPE, MOST_BYTES, carried, has_room};
pub use keys::{EnvelopeKeys, EnvelopeKeysError, Readers};

/// How much earlier than its due time a message may come: the clocks of SQS and of this machine differ.
const EARLY: Duration = Duration::from_secs(1);

/// What a message that was sent again carries along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MessageEnvelope {
    /// The id of the message when it was first sent.
    pub id: String,
    /// When it was first sent.
    pub sent: Timestamp,
    /// When it was first received.
    pub first_received: Timestamp,
    /// Who sent it first, if SQS reported that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Its failed attempts.
    pub attempts: u32,
    /// The delay before its next attempt.
    pub delay: Milliseconds,
    /// When its next attempt is due.
    pub due: Timestamp,
    /// How often it was sent again without an attempt in between, because SQS delays a message for 15 minutes at most.
    #[serde(default)]
    pub hops: u32,
    /// The digests of the policy that decided about its last failure, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// The code of its last error, or a part of its digest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The class of its last error, or a part of its digest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// When its last attempt failed, if that is not the delay before its due time because it was woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Timestamp>,
    /// The span of its last attempt, if that was recorded.
    #[serde(default, with = "trace", skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// Whether this host made it, or has a key that verifies it. Any sender can write another one.
    #[serde(skip)]
    pub is_verified: bool,
    /// Of a received message, the id by which it is not known: that of the copy if the envelope is verified, and the one that the envelope claims if not.
    #[serde(skip)]
    pub other_id: Option<String>,
}

impl MessageEnvelope {
    /// How long it is until the next attempt is due. `None` if it is due.
    pub fn early_by(&self, now: Timestamp) -> Option<Duration> {
        let left = self.due.since(now);
        (left > EARLY).then_some(left)
    }

    /// The envelope of a message whose last receive was no attempt: `before` attempts failed, and `delay` was the delay after the last of them.
    pub fn without_attempt(self, before: u32, delay: Option<Milliseconds>) -> Self {
        Self {
            failed: Some(self.failed_at()),
            attempts: before,
            delay: delay.unwrap_or_default(),
            ..self
        }
    }

    /// When its last attempt failed.
    pub fn failed_at(&self) -> Timestamp {
        let failed = self.due.0.saturating_sub(self.delay.0.into());
        self.failed.unwrap_or(Timestamp(failed))
    }

    /// The envelope of a message that is due earlier than it was.
    pub fn woken(&self, due: Timestamp) -> Self {
        Self {
            failed: Some(self.failed_at()),
            due,
            ..self.clone()
        }
    }

    /// The envelope of a message that came before it was due.
    pub fn hopped(&self) -> Self {
        Self {
            hops: self.hops.saturating_add(1),
            ..self.clone()
        }
    }
}
