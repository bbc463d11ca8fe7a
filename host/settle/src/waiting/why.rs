//! Why a message waits, as far as a host knows.

use backstop_decider::{Decided, RememberedFailure};

use super::memory::Known;
use super::packed::Decidable;
use crate::decision::Action;
use crate::failure::{Failure, Milliseconds, Timestamp};
use crate::queue::{Message, MessageEnvelope};

/// A failure that is remembered, and what was decided about it.
pub(super) struct Past {
    pub(super) failure: RememberedFailure,
    pub(super) delay: Milliseconds,
    pub(super) class: String,
    pub(super) policy: String,
}

/// Why a message waits, as far as the host knows.
pub(super) struct Why<'a> {
    pub(super) attempt: u32,
    pub(super) failed_at: Timestamp,
    pub(super) delay: Milliseconds,
    pub(super) code: &'a str,
    pub(super) class: String,
    pub(super) policy: &'a str,
    pub(super) decidable: Option<Decidable<'a>>,
    /// Whether the failure is remembered, if it is not here.
    pub(super) known: Known,
    /// Whether the message has just failed.
    pub(super) is_decided: bool,
}

impl<'a> Why<'a> {
    /// From the decision. `None` if the message does not wait.
    pub(super) fn decided(
        message: &Message,
        failure: &'a Failure,
        decided: &'a Decided,
    ) -> Option<Self> {
        let kept = failure.failed_at.since(message.kept_since);
        let decidable = decided.payload.as_ref().map(|payload| Decidable {
            failure,
            kept: Milliseconds::from_duration(kept),
            payload,
        });
        Some(Self {
            attempt: failure.attempt.get(),
            failed_at: failure.failed_at,
            delay: match decided.decision.action {
                Action::Retry { delay } => delay,
                Action::DeadLetter { .. } | Action::Discard { .. } => return None,
            },
            code: &failure.error.code,
            class: decided.decision.class.to_string(),
            policy: &decided.policy,
            decidable,
            known: Known::TooLarge,
            is_decided: true,
        })
    }

    /// From what was remembered before the message was sent again.
    pub(super) fn past(past: &'a Past) -> Self {
        let failure = &past.failure.failure;
        Self {
            attempt: failure.attempt.get(),
            failed_at: failure.failed_at,
            delay: past.delay,
            code: &failure.error.code,
            class: past.class.clone(),
            policy: &past.policy,
            decidable: Some(Decidable {
                failure,
                kept: past.failure.kept,
                payload: &past.failure.payload,
            }),
            known: Known::Here,
            is_decided: false,
        }
    }

    /// From the envelope of a message that was sent again, without its failure.
    pub(super) fn carried(envelope: &'a MessageEnvelope) -> Self {
        Self {
            attempt: envelope.attempts,
            failed_at: envelope.failed_at(),
            delay: envelope.delay,
            code: &envelope.code,
            class: envelope.class.clone(),
            policy: &envelope.policy,
            decidable: None,
            known: Known::Elsewhere,
            is_decided: false,
        }
    }
}
