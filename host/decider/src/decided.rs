//! What a decision is made from besides its failure, and what it leaves behind. The decider, the holds and the memory of waiting messages share these types.

use std::collections::BTreeMap;

use crate::decision::{Decision, Reach};
use crate::failure::{Failure, Milliseconds};
use crate::record::OtherIds;

/// How a failed message came to this host, and how it can be held next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journey {
    /// How long it can be held.
    pub reach: Reach,
    /// How often it was sent again without an attempt since its last one.
    pub hops: u32,
    /// Whether another copy of it made this attempt already.
    pub is_duplicate: bool,
    /// The ids that it has besides the one of its failure.
    pub ids: OtherIds,
}

impl Journey {
    /// A message that was received once and can be held for this long.
    pub const fn direct(reach: Reach) -> Self {
        Self {
            reach,
            hops: 0,
            is_duplicate: false,
            ids: OtherIds {
                received_as: None,
                original_id: None,
            },
        }
    }
}

/// A decision, and the version of the policy that it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// What the host does.
    pub decision: Decision,
    /// The digests of the evaluated policy, separated by commas.
    pub policy: String,
    /// The parts of the payload that the policy read, by pointer. `None` if there are too many.
    pub payload: Option<PayloadParts>,
}

/// A failure and the decision on it; `None` if no policy was evaluated.
pub type DecidedFailure<'a> = Option<(&'a Failure, &'a Decided)>;

/// The payload that a policy read, by pointer.
pub type PayloadParts = BTreeMap<String, Option<String>>;

/// A remembered failure, as it was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct RememberedFailure {
    /// The failure.
    pub failure: Failure,
    /// How long its queue had kept the message.
    pub kept: Milliseconds,
    /// The parts of the payload that the policy read.
    pub payload: PayloadParts,
}
