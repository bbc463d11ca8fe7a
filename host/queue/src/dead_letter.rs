//! The attributes by which a dead letter says why it died.

use crate::message::Message;

/// The attributes that a dead letter gets. If they do not all fit, the last ones are left out.
///
/// SQS allows ten attributes per message and counts them in its size. The sender's attributes take precedence.
pub const ATTRIBUTES: [&str; 11] = [
    "BackstopReason",
    "BackstopMessageId",
    "BackstopAttempt",
    "BackstopClass",
    "BackstopError",
    "BackstopFirstSent",
    "BackstopSource",
    "BackstopStatus",
    TRACE,
    "BackstopPolicy",
    "BackstopRetryAfter",
];

/// The span of the last attempt, or of the redrive, as a W3C `traceparent`. The sender's own trace context stays as it is.
pub const TRACE: &str = "BackstopTrace";

/// When a letter died that was put back from an archive, in milliseconds since 1970: SQS says only when it was put back.
pub const DIED: &str = "BackstopDied";

/// Whether an attribute of this name says something about a death.
pub fn is_ours(name: &str) -> bool {
    ATTRIBUTES.contains(&name) || name == DIED
}

/// Whether a message was dead-lettered and then moved back.
pub fn is_redriven(message: &Message) -> bool {
    message.attributes.keys().any(|name| is_ours(name))
}
