//! One record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use backstop_core::call::End;
use backstop_core::decision::Decision;
use backstop_core::failure::{Failure, Timestamp};
use backstop_core::policy::{LogLine, PartName};

use crate::life_event::{EventRecord, OtherIds};
use crate::shadowed::Shadowed;

/// The attribute in which a message that was redriven says its first id.
const ORIGINAL_ID: &str = "BackstopMessageId";

/// One decision and everything that went into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionRecord {
    /// When it was made.
    pub time: Timestamp,
    /// The queue's name in the configuration, or the retrier's in a program.
    pub queue: String,
    /// The parts of the evaluated policy, with their settings.
    pub policy: Vec<PartName>,
    /// The failure as the policy received it.
    #[serde(deserialize_with = "backstop_json::only_object")]
    pub failure: Failure,
    /// The parts of the payload that the policy read, by pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub payload: BTreeMap<String, Option<String>>,
    /// How many reads of the payload are missing here because the record would have become too large.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payload_left_out: u64,
    /// How many details of the error are missing here because they may be secret: see [`KEPT_DETAILS`](crate::KEPT_DETAILS).
    #[serde(default, skip_serializing_if = "is_default")]
    pub details_left_out: u64,
    /// The other ids of the message.
    #[serde(flatten)]
    pub others: OtherIds,
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// The policy's log lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// How often the message was sent again without an attempt since its last one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hops: u32,
    /// Whether another copy of the message made this attempt already.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplicate: bool,
    /// How the call ended with this failure, if a program's retrier decided and made no further attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The fuel that all parts consumed.
    pub fuel: u64,
    /// How long the evaluation took, in microseconds.
    pub took_us: u64,
    /// The shadow's result for the same failure, if the queue has a shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadowed>,
}

impl DecisionRecord {
    /// All ids of the message that the record has, in the order in which the message got them.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let attributes = self.failure.attributes.iter();
        let original = attributes.filter(|(name, _)| name == ORIGINAL_ID);
        original
            .map(|(_, id)| id.as_str())
            .chain(self.others.around(&self.failure.message_id))
    }

    /// Its approximate size in memory: the texts whose length depends on the message.
    pub fn size(&self) -> usize {
        let pairs = self
            .failure
            .attributes
            .iter()
            .chain(&self.failure.error.details);
        let pairs: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        let parts = self.payload.iter();
        let parts: usize = parts
            .map(|(pointer, text)| pointer.len() + text.as_ref().map_or(0, String::len))
            .sum();
        self.failure.error.code.len() + self.failure.error.message.len() + pairs + parts
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Receives every decision. Must not block for long, because it runs where messages are handled.
pub trait Observer: Send + Sync {
    /// Called for each decision: before it is applied, or, if the queue has a shadow, after the shadow has answered.
    fn decided(&self, record: &DecisionRecord);

    /// Called for what happens to messages and queues between decisions, as far as that is [recorded](crate::Recorded).
    fn happened(&self, _event: &EventRecord) {}
}
