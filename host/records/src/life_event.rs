//! What happened to a message, or to its queue, between decisions.
//!
//! A line of these has the field `event`, which no decision record has. Who reads records skips the events that it does not know.

use serde::{Deserialize, Serialize};

use backstop_core::failure::Timestamp;

/// The ids of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MessageIds {
    /// The id by which the host knows it, as in the message's decision records.
    pub message_id: String,
    /// Its other ids.
    #[serde(flatten)]
    pub others: OtherIds,
}

impl MessageIds {
    /// All of them, in the order in which the message got them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.others.around(&self.message_id)
    }
}

/// The ids of a message, besides the one by which the host knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OtherIds {
    /// The id under which it was received, of one that was sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_as: Option<String>,
    /// The id that it had first, as it says itself: in an envelope that no key verifies, or in the attribute `BackstopMessageId` of one that was redriven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_id: Option<String>,
}

impl OtherIds {
    /// Those that differ from `id`.
    pub fn besides(self, id: &str) -> Self {
        let other = |it: &String| it != id;
        Self {
            received_as: self.received_as.filter(other),
            original_id: self.original_id.filter(other),
        }
    }

    /// These and the one by which the host knows the message, in the order in which the message got them.
    pub(crate) fn around<'a>(&'a self, message_id: &'a str) -> impl Iterator<Item = &'a str> {
        let first = self.original_id.as_deref().into_iter();
        first.chain([message_id]).chain(self.received_as.as_deref())
    }
}

/// A line about an event.
///
/// ```
/// use backstop_records::{EventRecord, LifeEvent};
///
/// let line = r#"{"time":1,"queue":"orders","message-id":"m-1","event":"succeeded","attempt":2}"#;
/// let record: EventRecord = serde_json::from_str(line)?;
/// assert!(matches!(record.event, LifeEvent::Succeeded { attempt: 2, .. }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EventRecord {
    /// When it happened.
    pub time: Timestamp,
    /// The queue's name in the configuration.
    pub queue: String,
    /// The message, unless it happened to the queue.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageIds>,
    /// What happened.
    #[serde(flatten)]
    pub event: LifeEvent,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum LifeEvent {
    /// The worker has done the message.
    Succeeded {
        /// The number of the attempt.
        attempt: u32,
        /// `true` if the message could not be deleted: it may be delivered again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        not_deleted: bool,
    },
    /// The dead-letter queue has accepted the letter.
    DeadLettered {
        /// Why.
        reason: String,
        /// The ARN of the dead-letter queue.
        dead_letter_queue: String,
        /// The letter's id there, if the queue has said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        letter_id: Option<String>,
    },
    /// The message was sent to its queue again, to wait there.
    SentAgain {
        /// The id of the copy, if the queue has said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_as: Option<String>,
        /// When its next attempt is due.
        due: Timestamp,
        /// How often it was sent again without an attempt since its last one.
        hops: u32,
    },
    /// The message comes sooner than it was due.
    Woken {
        /// What has woken it.
        by: WokenBy,
        /// When it comes.
        due: Timestamp,
        /// When it would have come.
        was_due: Timestamp,
        /// The version of the policy that decided again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    },
    /// The queue is paused: it is not polled.
    Paused {
        /// Who has paused it: `the configuration` in a maintenance window.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// When the pause ends by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// The pause is over.
    Resumed {
        /// Who has ended it, or what.
        by: String,
    },
}

backstop_core::names! {
    /// What brings a message back sooner.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WokenBy {
        /// `backstop wake`.
        Wake = "wake",
        /// A newer version of the policy that decided again.
        Reconsideration = "reconsideration",
        /// A wake or a reconsideration, found when a hop of the message had ended.
        Hop = "hop",
    }
}

impl LifeEvent {
    /// The further id that it gives the message.
    pub fn new_id(&self) -> Option<&str> {
        match self {
            Self::DeadLettered { letter_id, .. } => letter_id.as_deref(),
            Self::SentAgain { sent_as, .. } => sent_as.as_deref(),
            Self::Succeeded { .. }
            | Self::Woken { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. } => None,
        }
    }
}

/// Which events are recorded besides decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recorded {
    /// None.
    Decisions,
    /// What becomes of messages that have failed, and what happens to their queue.
    #[default]
    Outcomes,
    /// All: also the success of a first attempt, and each copy of a message that is sent again.
    All,
}

impl Recorded {
    /// Whether the event of a message is recorded. One that has not failed is new.
    pub fn includes(self, event: &LifeEvent, is_new: bool) -> bool {
        match self {
            Self::Decisions => false,
            Self::All => true,
            Self::Outcomes => match event {
                LifeEvent::Succeeded { .. } => !is_new,
                LifeEvent::SentAgain { .. } => false,
                LifeEvent::DeadLettered { .. }
                | LifeEvent::Woken { .. }
                | LifeEvent::Paused { .. }
                | LifeEvent::Resumed { .. } => true,
            },
        }
    }
}
