//! The envelope in which a retried event comes to a Lambda function.

use backstop_envelope::Envelope;
use pyo3::prelude::*;

/// What an envelope says: the attempt, when the first one failed (in seconds since 1970), the event's id, the delay before this attempt in milliseconds, and the code of the last error.
type Said = (u32, u64, Option<String>, Option<u32>, Option<String>);

/// What the envelope of an event says; none if the event is the sender's own.
#[pyfunction]
pub(crate) fn open_envelope(event: &str) -> Option<Said> {
    let metadata = Envelope::open(event)?.metadata;
    Some((
        metadata.attempt.get(),
        metadata.initial_timestamp,
        metadata.id,
        metadata.previous_delay_ms,
        metadata.last_error.map(|error| error.code),
    ))
}
