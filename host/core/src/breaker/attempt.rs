//! An attempt as a breaker sees it: the permit, the outcome, and why there was none.

use std::time::{Duration, Instant};

use crate::decision::ErrorClass;

/// The right to make one attempt. Give it back with [`Breaker::leave`](super::Breaker::leave), whatever comes of the attempt: it counts as in flight until then.
#[derive(Debug)]
#[must_use = "the attempt counts as in flight until `leave`"]
pub struct Permit {
    pub(super) era: u64,
    pub(super) began: Instant,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It succeeded.
    Succeeded {
        /// When it ended.
        at: Instant,
    },
    /// It failed, and its policy calls that transient or throttled, or says that what is behind it is down.
    Failed {
        /// When it ended.
        at: Instant,
        /// How long the other side asks to wait. Longer than [`longest_retry_after`](super::BreakerSettings::longest_retry_after) counts as that.
        retry_after: Option<Duration>,
        /// How long it is down, counted from this failure, as the policy says. Opens the breaker whatever it has counted; longer than [`longest_retry_after`](super::BreakerSettings::longest_retry_after) counts as that.
        down_for: Option<Duration>,
        /// Uniform in [0, 1): the jitter of the pause, if it opens the breaker.
        random: f64,
    },
    /// It proves nothing: it was interrupted, or its failure is about what was asked and not about who was asked.
    Neither,
}

/// Why nothing may be attempted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The breaker is open.
    Open {
        /// When the next probe may begin.
        until: Instant,
    },
    /// A probe is under way. Ask again when it has ended.
    Probing,
    /// As many attempts are in flight as may be while it grows. Ask again when one has ended.
    Full {
        /// How many that is.
        limit: u32,
    },
}

impl Outcome {
    /// The outcome of a failed attempt to which its policy gave this class. Only transient and throttled failures count, and those of which the policy says that something is down.
    pub fn of_failure(
        class: &ErrorClass,
        at: Instant,
        retry_after: Option<Duration>,
        down_for: Option<Duration>,
        random: f64,
    ) -> Self {
        let counts = match class {
            ErrorClass::Transient | ErrorClass::Throttled => true,
            ErrorClass::Permanent | ErrorClass::Other(_) => down_for.is_some(),
        };
        if !counts {
            return Self::Neither;
        }
        Self::Failed {
            at,
            retry_after,
            down_for,
            random,
        }
    }
}
