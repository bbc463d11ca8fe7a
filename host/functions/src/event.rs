//! One event and its attempts: what a record says about it, and the envelope of its next attempt.

use std::num::NonZeroU32;

use backstop_envelope::{
    Envelope, LARGEST_ATTEMPT, LONGEST_ID, LastError, Metadata, Redriven, wrap,
};
use serde_json::value::RawValue;

use crate::record::InvocationRecord;
use backstop_core::failure::{Failure, ID_BYTES, Milliseconds, Timestamp, random};
use backstop_core::text::cut;

/// The longest code and the longest text of the last error in an envelope, in bytes. The envelope is part of every attempt.
const CODE: usize = 100;
const TEXT: usize = 400;

// A policy receives an envelope's id unchanged.
const _: () = assert!(LONGEST_ID <= ID_BYTES);

/// The event of a record for an attempt that a person asks for, with another or the same payload, in the envelope that keeps its id. The policy counts attempts and age from there, or goes on with them.
pub fn redriven_event(
    record: InvocationRecord,
    payload: Box<RawValue>,
    starts_again: bool,
    now: Timestamp,
) -> String {
    let event = Event {
        payload,
        ..Event::of(record)
    };
    if starts_again {
        event.redriven(now)
    } else {
        wrap(&event.carried_on(), event.payload())
    }
}

/// An event whose attempt failed.
#[derive(Debug)]
pub struct Event {
    /// Identifies it in all of its attempts: the request id of the first.
    pub id: String,
    /// When its first attempt failed.
    pub first_failed: Timestamp,
    /// Why and when its last attempt failed.
    pub record: InvocationRecord,
    /// The original event, its JSON text byte for byte.
    payload: Box<RawValue>,
    /// All attempts made; 0 if the function never ran.
    made: u32,
    metadata: Metadata,
}

impl Event {
    /// The event of a record, without its envelope if it has one.
    pub fn of(record: InvocationRecord) -> Self {
        let Some(Envelope {
            mut metadata,
            payload,
        }) = Envelope::open(record.event.get())
        else {
            let seconds = record.failed_at.0 / 1_000;
            return Self {
                id: record.request_id.clone(),
                first_failed: record.failed_at,
                payload: record.event.clone(),
                made: u32::from(record.ran),
                metadata: Metadata::new(NonZeroU32::MIN, seconds),
                record,
            };
        };
        let carried = metadata.ordinal().get();
        let failed_at = record.failed_at;
        // A sender may forge the envelope, so impossible values are ignored.
        let is_ours = metadata.id.is_some();
        metadata.redriven = metadata.redriven.filter(|redriven| {
            is_ours && redriven.attempts < carried && seconds(redriven.timestamp) <= failed_at
        });
        let id = metadata.id.get_or_insert_with(|| record.request_id.clone());
        Self {
            id: id.clone(),
            first_failed: seconds(metadata.initial_timestamp).min(failed_at),
            payload: payload.to_owned(),
            made: if record.ran { carried } else { carried - 1 },
            metadata,
            record,
        }
    }

    /// The event's text, for a policy that reads it.
    pub fn payload(&self) -> &str {
        self.payload.get()
    }

    /// The spans that invoked its first attempt and its last one, as far as its envelope says.
    pub fn traceparents(&self) -> (Option<&str>, Option<&str>) {
        let Metadata {
            traceparent,
            first_traceparent,
            ..
        } = &self.metadata;
        (first_traceparent.as_deref(), traceparent.as_deref())
    }

    /// Its next envelope has these spans: that of the sender, if it is the first one known, and the one that invokes the next attempt.
    pub fn continue_trace(&mut self, sender: Option<String>, next: Option<String>) {
        let Metadata {
            traceparent,
            first_traceparent,
            ..
        } = &mut self.metadata;
        *first_traceparent = first_traceparent.take().or(sender);
        *traceparent = next.or_else(|| traceparent.take());
    }

    /// The number of the next attempt, counted over all redrives.
    pub fn next_attempt(&self) -> NonZeroU32 {
        NonZeroU32::MIN.saturating_add(self.made)
    }

    /// The failure as the policy receives it. Attempts and age count from the last redrive, if there was one.
    pub fn failure(&self, attributes: Vec<(String, String)>) -> Failure {
        let (before, since) = match self.metadata.redriven {
            Some(Redriven {
                attempts,
                timestamp,
            }) => (attempts, seconds(timestamp)),
            None => (0, self.first_failed),
        };
        let attempt = NonZeroU32::new(self.made.saturating_sub(before)).unwrap_or(NonZeroU32::MIN);
        let failed_at = self.record.failed_at;
        Failure {
            message_id: self.id.clone(),
            source: self.record.function.clone(),
            attempt,
            age: Milliseconds::from_duration(failed_at.since(since)),
            failed_at,
            previous_delay: self.metadata.previous_delay_ms.map(Milliseconds),
            error: self.record.error.clone(),
            attributes,
            random: random(&self.id, attempt),
        }
    }

    /// The next attempt's event, after `delay`.
    pub fn retried(&self, delay: Milliseconds, policy: &str) -> String {
        let mut metadata = self.carried_on();
        metadata.previous_delay_ms = Some(delay.0);
        metadata.policy = Some(policy.to_owned());
        wrap(&metadata, self.payload())
    }

    /// The next attempt's event after the message was moved back from the dead-letter queue. The policy counts from here.
    pub fn redriven(&self, now: Timestamp) -> String {
        let mut metadata = self.carried_on();
        metadata.previous_delay_ms = None;
        metadata.policy = None;
        metadata.redriven = Some(Redriven {
            // Less than the attempt that the envelope names, also at the largest one.
            attempts: self.made.min(LARGEST_ATTEMPT - 1),
            timestamp: now.0 / 1_000,
        });
        wrap(&metadata, self.payload())
    }

    fn carried_on(&self) -> Metadata {
        let mut last_error = LastError {
            code: self.record.error.code.clone(),
            message: self.record.error.message.clone(),
        };
        cut(&mut last_error.code, CODE);
        cut(&mut last_error.message, TEXT);
        let mut metadata = self.metadata.clone();
        metadata.attempt = self.next_attempt();
        metadata.id = Some(self.id.clone());
        metadata.last_error = Some(last_error);
        metadata
    }

    /// When the next attempt is due, measured from the failure and not from a receive, so that it does not change.
    pub fn due(&self, delay: Milliseconds) -> Timestamp {
        self.record.failed_at.plus(delay.as_duration())
    }

    /// The longest delay for which a queue can hold its message, which the queue drops at `expires`.
    pub fn max_delay(&self, expires: Timestamp) -> Milliseconds {
        Milliseconds::from_duration(expires.since(self.record.failed_at))
    }
}

/// A number of seconds since 1970.
fn seconds(seconds: u64) -> Timestamp {
    Timestamp(seconds.saturating_mul(1_000))
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
