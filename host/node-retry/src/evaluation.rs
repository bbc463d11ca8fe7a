//! An evaluation in JavaScript: what goes there, and what comes back.

use backstop_core::decision::{Action, Answer, ErrorClass, FallbackCause, FallbackKind};
use backstop_core::failure::{Failure, Milliseconds};

use crate::wire::{Reader, Writer};

/// The failure, in the order in which JavaScript reads it.
pub(crate) fn write_failure(writer: &mut Writer, failure: &Failure) {
    let error = &failure.error;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a double is exact for the next 285,000 years"
    )]
    let failed_at = failure.failed_at.0 as f64;
    writer
        .text(&failure.message_id)
        .text(&failure.source)
        .number(failure.attempt.get())
        .number(failure.age.0)
        .number(failed_at)
        .optional(failure.previous_delay.map(|it| it.0))
        .text(&error.code)
        .text(&error.message)
        .optional(error.status)
        .optional(error.retry_after.map(|it| it.0))
        .pairs(&error.details)
        .pairs(&failure.attributes)
        .number(failure.random);
}

/// What JavaScript's evaluation has brought: an answer, which is not validated yet, or how the policy broke.
pub(crate) fn read_answer(reader: &mut Reader) -> Result<Answer, FallbackCause> {
    if reader.flag() {
        let kind = match reader.text().as_str() {
            "out-of-time" => FallbackKind::OutOfTime,
            "rejected-settings" => FallbackKind::RejectedSettings,
            "no-settings" => FallbackKind::NoSettings,
            "not-loaded" => FallbackKind::NotLoaded,
            _ => FallbackKind::Trapped,
        };
        return Err(FallbackCause::new(kind, reader.text()));
    }
    let (class, name) = (reader.text(), reader.text());
    let class = match class.as_str() {
        "transient" => ErrorClass::Transient,
        "throttled" => ErrorClass::Throttled,
        "permanent" => ErrorClass::Permanent,
        _ => ErrorClass::Other(name),
    };
    let (verdict, reason) = (reader.text(), reader.text());
    let delay = Milliseconds(reader.whole());
    let action = match verdict.as_str() {
        "dead-letter" => Action::DeadLetter { reason },
        "discard" => Action::Discard { reason },
        _ => Action::Retry { delay },
    };
    let mut answer = Answer::new(class, action);
    let down_for = reader.optional();
    answer.down_for = down_for.map(|it| Milliseconds(crate::wire::saturated(it)));
    Ok(answer)
}
