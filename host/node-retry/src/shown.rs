//! How a call ends, and what was decided, in the order in which JavaScript reads it.

use backstop_core::call::Ended;
use backstop_core::decision::{Action, DecidedBy, Decision};
use backstop_core::failure::Error;

use crate::evaluation::write_failure;
use crate::step::Decided;
use crate::wire::{Writer, milliseconds};

/// The end of a call without success.
pub(crate) fn write_end(writer: &mut Writer, ended: &Ended<'_>) {
    writer
        .text(ended.end.as_str())
        .text(&ended.to_string())
        .number(ended.attempts)
        .optional(ended.time_left.map(milliseconds))
        .text(ended.refused_by.unwrap_or_default())
        .optional(ended.next_probe.map(milliseconds));
    write_error(writer, ended.description);
    writer.number(u8::from(ended.decision.is_some()));
    if let Some(decision) = ended.decision {
        write_decision(writer, decision);
    }
}

fn write_error(writer: &mut Writer, error: Option<&Error>) {
    writer.number(u8::from(error.is_some()));
    if let Some(error) = error {
        writer
            .text(&error.code)
            .text(&error.message)
            .optional(error.status)
            .optional(error.retry_after.map(|it| it.0))
            .pairs(&error.details);
    }
}

fn write_decision(writer: &mut Writer, decision: &Decision) {
    let (delay, reason) = match &decision.action {
        Action::Retry { delay } => (Some(delay.0), ""),
        Action::DeadLetter { reason } | Action::Discard { reason } => (None, reason.as_str()),
    };
    let (wanted, cause) = match &decision.decided_by {
        DecidedBy::Policy => (None, ""),
        DecidedBy::Shortened(wanted) => (Some(wanted.0), ""),
        DecidedBy::Bound(bound) => (None, bound.as_str()),
        DecidedBy::Fallback(cause) => (None, cause.text.as_str()),
    };
    let class = match decision.class.known() {
        Some(_) => decision.class.to_string(),
        None => format!("other:{}", decision.class),
    };
    writer
        .text(&class)
        .text(decision.action.verdict().as_str())
        .optional(delay)
        .text(reason)
        .text(decision.decided_by.as_str())
        .optional(wanted)
        .text(cause)
        .optional(decision.down_for.map(|it| it.0));
}

/// The last failed attempt with its decision, if one was decided about.
pub(crate) fn write_decided(writer: &mut Writer, decided: Option<Decided>) {
    writer.number(u8::from(decided.is_some()));
    if let Some(Decided { failure, decision }) = decided {
        write_failure(writer, &failure);
        write_decision(writer, &decision);
    }
}
