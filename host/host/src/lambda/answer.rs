//! What the response to a batch says of a message: nothing if it is handled, else that it has to come again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::queue::VisibilityTimeout;
use backstop_settle::{DEAD_LETTER_RETRY_DELAY, Settled};

/// Whether a message is handled and must not be reported as failed. Set as soon as Lambda has accepted its event or the dead-letter queue its dead letter, whether or not the message could be deleted: the mapping deletes messages that are not reported.
#[derive(Debug, Clone, Default)]
pub(super) struct Handled(Arc<AtomicBool>);

impl Handled {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a message goes.
pub(super) enum Goes {
    /// Out of the retry queue.
    Away,
    /// Back, after it was hidden for this long.
    Back(VisibilityTimeout),
}

impl From<Settled> for Goes {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Discarded | Settled::DeadLettered | Settled::SentAgain { .. } => Self::Away,
            Settled::Waits(timeout) => Self::Back(timeout),
            Settled::NoDeadLetterQueue | Settled::Refused(..) => {
                Self::Back(DEAD_LETTER_RETRY_DELAY)
            }
        }
    }
}
