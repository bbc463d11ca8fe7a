//! What becomes of a letter before anything is written: its target, and the message or event there. A run and its dry run have this in common.

use std::sync::Arc;

use backstop_core::failure::Timestamp;
use backstop_queue::Outgoing;
use backstop_queue::envelope::EnvelopeKeys;
use backstop_traces::Span;

use super::RedriveError;
use super::outgoing;
use super::plan::Plan;
use super::target::{Router, Target, To};
use crate::letter::Letter;

/// What a letter becomes.
pub(super) enum Becomes {
    Message(Outgoing),
    Event(String),
}

impl Becomes {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Message(message) => message.size(),
            Self::Event(event) => event.len(),
        }
    }
}

/// A letter with a target.
pub(super) struct Prepared {
    pub(super) to: To,
    pub(super) target: Arc<Target>,
    /// The text that is sent, unless somebody edits it.
    pub(super) text: Arc<str>,
}

/// Why a letter is not moved.
pub(super) enum Obstacle {
    /// It is refused, for this reason.
    Refused(String),
    /// An error stops the run.
    Error(RedriveError),
    /// A person stops the run.
    Stopped,
}

impl From<String> for Obstacle {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

impl From<RedriveError> for Obstacle {
    fn from(error: RedriveError) -> Self {
        Self::Error(error)
    }
}

/// The target and the text of a letter.
pub(super) async fn prepare(
    router: &Router,
    plan: &Plan,
    letter: &Letter,
) -> Result<Prepared, Obstacle> {
    let Some(to) = plan.target_of(letter) else {
        let why = "it does not say where it comes from: name a target with --to";
        return Err(why.to_owned().into());
    };
    let target = match router.open(&to).await {
        Err(error) if names_itself(plan, &to) && error.is_of_target() => {
            let mut why = backstop_core::text::chain(&error);
            if matches!(error, RedriveError::Target { .. }) {
                why += ": name another target with --to";
            }
            return Err(why.into());
        }
        target => target?,
    };
    let text = match *target {
        Target::Queue { .. } => Arc::clone(&letter.message.body),
        Target::Function { ref name, .. } => outgoing::event(letter, plan.attempts, name)?.into(),
    };
    Ok(Prepared { to, target, text })
}

/// Whether only letters name this target, and neither the operator nor the configuration. Anybody who can write to the dead-letter queue may have written such a letter: a target that does not exist must not stop the run.
fn names_itself(plan: &Plan, to: &To) -> bool {
    plan.to.is_none() && plan.default_to.as_ref() != Some(to)
}

/// What a letter becomes with this text, or why its target can't take it.
pub(super) fn become_(
    plan: &Plan,
    keys: Option<&EnvelopeKeys>,
    letter: &Letter,
    target: &Target,
    text: Arc<str>,
    now: Timestamp,
    span: &Span,
) -> Result<Becomes, String> {
    let attempts = plan.attempts;
    match target {
        Target::Queue { description, .. } => {
            let span = span.context();
            let message = outgoing::message(
                letter,
                text,
                attempts,
                &plan.run,
                description,
                keys,
                now,
                span,
            );
            message.map(Becomes::Message)
        }
        Target::Function { name, .. } => {
            let event = outgoing::invocation(letter, text.to_string(), attempts, name, now);
            event.map(Becomes::Event)
        }
    }
}
