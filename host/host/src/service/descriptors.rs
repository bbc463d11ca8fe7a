//! Whether this process may have as many files open as its queues need.

use rustix::process::{Resource, getrlimit};

use crate::config::{HandlerConfig, QueueConfig};

/// What the process has open besides its queues: policies, logs, records, the admin interface.
const OWN: u64 = 64;

/// The connections of a queue for requests that are not polls: batches of deletes, visibility changes and sends.
const REQUESTS: u64 = 64;

/// The limit on open files is lower than what the queues need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process may have {limit} files open, and its queues may need {needed} for their messages in flight, polls and requests. Above the limit, messages are returned without an attempt. Raise the limit (ulimit -n, LimitNOFILE) or lower max-in-flight"
)]
pub(crate) struct TooFewDescriptors {
    limit: u64,
    needed: u64,
}

/// Compares the limit of this process with what these queues need.
pub(crate) fn check(queues: &[QueueConfig]) -> Result<(), TooFewDescriptors> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let needed = queues.iter().map(of_queue).fold(OWN, u64::saturating_add);
    if needed > limit {
        Err(TooFewDescriptors { limit, needed })
    } else {
        Ok(())
    }
}

fn of_queue(queue: &QueueConfig) -> u64 {
    let options = &queue.options;
    #[cfg(feature = "idempotency")]
    let records = u64::from(queue.idempotency.is_some());
    #[cfg(not(feature = "idempotency"))]
    let records = 0;
    let per_message = per_message(&queue.handler) + records;
    let messages = wide(options.max_in_flight).saturating_mul(per_message);
    let polls_and_requests = wide(options.max_polls).saturating_add(REQUESTS);
    messages.saturating_add(polls_and_requests)
}

/// The descriptors of one message in flight for its handler: a connection, or the three streams of a program and its process.
fn per_message(handler: &HandlerConfig) -> u64 {
    match handler {
        HandlerConfig::Http(_) | HandlerConfig::Lambda(_) => 1,
        HandlerConfig::Exec(..) => 4,
        HandlerConfig::Function(_) => 0,
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
