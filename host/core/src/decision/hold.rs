//! How a message is held until its next attempt.

use serde::{Deserialize, Serialize};

use super::answer::LONGEST_DELAY;
use crate::failure::Milliseconds;

crate::names! {
    /// How a message is held until its next attempt.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Hold {
        /// It stays invisible in its queue: for 12 hours at most, and as long as the queue keeps it.
        #[default]
        Visibility = "visibility",
        /// It is sent to its queue again, with a delay, and deleted: for any time.
        Resend = "resend",
    }
}

impl Hold {
    /// Whether it is [`Hold::Visibility`].
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde requires this signature"
    )]
    pub(super) fn is_visibility(&self) -> bool {
        *self == Self::Visibility
    }
}

/// When a message is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resend {
    /// The queue or the message does not allow it.
    #[default]
    Never,
    /// If it cannot be held by visibility.
    IfNeeded,
    /// After every failure.
    Always,
}

/// How long a message can be held now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The longest delay by visibility.
    pub visibility: Milliseconds,
    /// How long the queue has kept the message so far. Its retention counts from then.
    pub kept: Milliseconds,
    /// When the message is sent again.
    pub resend: Resend,
}

impl Reach {
    /// A message that can be held by visibility alone, for this long, and that the queue has kept since it was first sent, `age` ago.
    pub const fn visibility(longest: Milliseconds, age: Milliseconds) -> Self {
        Self {
            visibility: longest,
            kept: age,
            resend: Resend::Never,
        }
    }

    /// How a message is held for `delay`, and for how long. `fits` tells whether the queue keeps the message for that time.
    ///
    /// This is the only place where a delay is cut to what the queue allows.
    pub(super) fn hold(
        self,
        delay: Milliseconds,
        fits: impl Fn(Milliseconds) -> bool,
    ) -> (Hold, Milliseconds) {
        let is_resent = match self.resend {
            Resend::Never => false,
            Resend::IfNeeded => delay > self.visibility || !fits(delay),
            Resend::Always => true,
        };
        if is_resent {
            (Hold::Resend, delay.min(LONGEST_DELAY))
        } else {
            (Hold::Visibility, delay.min(self.visibility))
        }
    }
}
