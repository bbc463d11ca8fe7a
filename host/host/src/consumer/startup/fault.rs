//! What the checks at startup find: faults that prevent a start, and warnings.

use std::num::NonZeroU32;

use crate::failure::Error;
use crate::queue::{CREATE_IT, Meaning, QueueError};
use crate::text::chain;
use backstop_queue::envelope::EnvelopeKeysError;

/// A reason why a consumer cannot start, with what to change.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The queue does not exist.
    #[error("the {role} {url} does not exist: {CREATE_IT}")]
    Missing {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
    },
    /// A permission is missing.
    #[error(
        "access to the {role} {url} is denied: allow {actions} on it, and check which credentials are in use"
    )]
    Denied {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
        /// The required permissions.
        actions: &'static str,
        /// The answer of SQS.
        #[source]
        cause: QueueError,
    },
    /// The queue is unreachable.
    #[error(
        "can't reach the {role} {url}{}",
        if cause.is_no_response() { "" } else { ": check the credentials, the network, the region and the endpoint" }
    )]
    Unreachable {
        /// `queue` or `dead-letter queue`.
        role: &'static str,
        /// Its URL or ARN.
        url: String,
        /// What happened, and what to do about it.
        #[source]
        cause: QueueError,
    },
    /// There is no dead-letter queue.
    #[error(
        "the queue {url} has no dead-letter queue: name one with `dead-letter-queue` (--dead-letter-queue), or give the queue a redrive policy"
    )]
    NoDeadLetterQueue {
        /// The queue's URL.
        url: String,
    },
    /// A FIFO queue and its dead-letter queue must both be FIFO queues, and likewise standard queues.
    #[error("the queue {url} is {} but its dead-letter queue {dead_letters} is {}: name one of the same kind", kind(*.fifo), kind(!*.fifo))]
    Kind {
        /// The queue's URL.
        url: String,
        /// The dead-letter queue's URL.
        dead_letters: String,
        /// Whether the queue itself is a FIFO queue.
        fifo: bool,
    },
    /// The dead-letter queue is the queue itself.
    #[error("the queue {url} is its own dead-letter queue: name another")]
    Itself {
        /// The queue's URL.
        url: String,
    },
    /// Another table of the configuration has the same queue.
    #[error(
        "the queue {url} is that of `{other}` too, so that each would handle a part of its messages: name it once"
    )]
    Twice {
        /// The queue's URL.
        url: String,
        /// The name of the other table.
        other: String,
    },
    /// A FIFO queue cannot hold its messages by sending them again.
    #[error(
        "hold = \"resend\" is impossible on the FIFO queue {url}: a message that is sent again would go behind its group. Use hold = \"auto\" or \"visibility\" (--hold)"
    )]
    FifoResend {
        /// The queue's URL.
        url: String,
    },
    /// The keys of envelopes can't be used.
    #[error("envelope-key-file of the queue {url}: {cause}")]
    EnvelopeKeys {
        /// The queue's URL.
        url: String,
        /// Why.
        cause: EnvelopeKeysError,
    },
    /// SQS moves messages to the dead-letter queue before max-attempts is reached.
    #[error(
        "SQS moves a message of {queue} to the dead-letter queue after {most} receives, before max-attempts of {max_attempts} is reached: raise the queue's maxReceiveCount to at least {max_attempts} (receives without an attempt count too), or lower max-attempts to {most}"
    )]
    MaxAttempts {
        /// The queue's name.
        queue: String,
        /// Its `maxReceiveCount`.
        most: NonZeroU32,
        /// The configured limit.
        max_attempts: NonZeroU32,
    },
    /// The handler can't run.
    #[error("the handler can't run: {cause}")]
    Handler {
        /// Why.
        cause: Error,
    },
}

fn kind(fifo: bool) -> &'static str {
    if fifo {
        "a FIFO queue"
    } else {
        "a standard queue"
    }
}

/// Something that will not work as the operator expects, with what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// SQS moves messages to the dead-letter queue before the policy does.
    #[error(
        "SQS moves a message of {queue} to the dead-letter queue after {most} receives, but the policy would still retry: those dead letters have no reason. Set max-attempts to at most {most}, or raise the queue's maxReceiveCount (receives without an attempt count too)"
    )]
    MaxReceiveCount {
        /// The queue's name.
        queue: String,
        /// Its `maxReceiveCount`.
        most: NonZeroU32,
    },
    /// The queue drops messages before max-age is reached.
    #[error(
        "max-age is {max_age}, but {queue} keeps a message for {retention} only: older messages are dead-lettered before SQS drops them. Raise the queue's retention or lower max-age"
    )]
    Retention {
        /// The queue's name.
        queue: String,
        /// The configured limit.
        max_age: String,
        /// The queue's retention.
        retention: String,
    },
    /// The dead-letter queue rejects large messages.
    #[error(
        "{queue} accepts messages of up to {most} bytes, but its dead-letter queue {dead_letters} only up to {less}: it rejects larger ones, which stay in {queue} until SQS drops them. Raise its MaximumMessageSize to {most}"
    )]
    MessageSize {
        /// The queue's name.
        queue: String,
        /// Its `MaximumMessageSize`.
        most: usize,
        /// The dead-letter queue's name.
        dead_letters: String,
        /// The dead-letter queue's `MaximumMessageSize`.
        less: usize,
    },
    /// The queue drops messages before the policy gives them up.
    #[error(
        "the policy gives a message up after {queue} would have dropped it: it is dead-lettered before the queue's retention of {retention} ends. Raise the queue's retention or lower the policy's max-age"
    )]
    PolicyMaxAge {
        /// The queue's name.
        queue: String,
        /// The queue's retention.
        retention: String,
    },
    /// The dead-letter queue keeps messages for a shorter time than the queue.
    #[error(
        "the dead-letter queue {url} keeps a message for {retention} only, {queue} for {own}: raise its retention, best to 14d, or dead letters are gone before anybody sees them"
    )]
    DeadLetterRetention {
        /// Its URL.
        url: String,
        /// Its retention.
        retention: String,
        /// The queue's name.
        queue: String,
        /// The queue's retention.
        own: String,
    },
    /// Two consumers may receive the same message.
    #[error(
        "the visibility timeout of {queue} is {seconds}s: after one slow heartbeat a message is delivered again while it is handled. Set visibility-timeout to 30s"
    )]
    Visibility {
        /// The queue's name.
        queue: String,
        /// The timeout.
        seconds: u32,
    },
    /// The linger time is too long.
    #[error(
        "linger is {linger}, more than a third of the visibility timeout of {queue}: an outcome that waits longer may be applied when the message is visible again. {longest} is used; lower linger or raise visibility-timeout"
    )]
    Linger {
        /// The queue's name.
        queue: String,
        /// The option.
        linger: String,
        /// The time that is used.
        longest: String,
    },
    /// A shutdown interrupts attempts.
    #[error(
        "an attempt of {queue} may take {attempt_timeout}, but a shutdown waits for {grace} only: a longer attempt is interrupted and made again. Raise grace, and the time that your platform gives a process to end, or lower attempt-timeout"
    )]
    Grace {
        /// The queue's name.
        queue: String,
        /// The longest attempt.
        attempt_timeout: String,
        /// The grace period.
        grace: String,
    },
    /// The handler does not answer.
    #[error(
        "the handler of {queue} does not answer: {cause}. Start it, or correct its URL; until it answers, nothing is received, and the messages wait in the queue without an attempt"
    )]
    Handler {
        /// The queue's name.
        queue: String,
        /// Why not.
        cause: String,
    },
    /// The dead-letter queue could not be checked.
    #[error(
        "can't read the attributes of the dead-letter queue {url}: {cause}. Allow sqs:GetQueueAttributes on it to have it checked"
    )]
    Unchecked {
        /// Its URL.
        url: String,
        /// Why.
        cause: String,
    },
}

/// All reasons why a consumer cannot start.
#[derive(Debug, thiserror::Error)]
#[error("{}", all_of(.0))]
pub struct Faults(pub Vec<Fault>);

fn all_of(faults: &[Fault]) -> String {
    let each: Vec<_> = faults.iter().map(|fault| chain(fault)).collect();
    each.join("\n")
}

/// The fault that an error of a queue means.
pub(crate) fn fault(
    role: &'static str,
    url: &str,
    actions: &'static str,
    cause: QueueError,
) -> Fault {
    let url = url.to_owned();
    if cause.is_missing_queue() {
        Fault::Missing { role, url }
    } else if matches!(cause.meaning, Meaning::Denied | Meaning::Unauthenticated) {
        Fault::Denied {
            role,
            url,
            actions,
            cause,
        }
    } else {
        Fault::Unreachable { role, url, cause }
    }
}
