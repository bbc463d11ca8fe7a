//! The envelope in which the Lambda retry handler sends an event again.

use backstop_envelope::Opened;

use crate::wire::{Writer, answer, given_text};

/// Whether an event with these values is an envelope; an id is passed, or nothing. The answer: the attempt, when the first one failed (in seconds since 1970), and whether the id is valid; -1 if it is the sender's own event.
#[unsafe(no_mangle)]
#[expect(clippy::cast_precision_loss, reason = "seconds to the year 9999")]
pub(crate) extern "C" fn envelope(attempt: f64, initial_timestamp: f64) -> i32 {
    let id = given_text();
    let Some(opened) = Opened::of(attempt, initial_timestamp, Some(&id)) else {
        return -1;
    };
    let mut writer = Writer::default();
    writer
        .number(opened.ordinal.get())
        .number(opened.initial_timestamp as f64)
        .number(u8::from(opened.has_id));
    answer(writer.0)
}
