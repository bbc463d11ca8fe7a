//! The rule that the built-in policies share: what is dead-lettered and why, and what `Retry-After` does to a delay.

use crate::{Class, FailedAttempt, Milliseconds, Settings, format_duration};

/// SQS keeps a message for at most 14 days. A longer delay is an invalid answer.
pub const LONGEST_DELAY: Milliseconds = 14 * 86_400_000;

/// Why a message with a permanent error is dead-lettered; `None` for every other class. A class of a policy's own is `None`.
pub fn reason_if_permanent(class: Option<Class>, code: &str) -> Option<String> {
    (class == Some(Class::Permanent)).then(|| format!("permanent: {code}"))
}

/// Why a message is dead-lettered at this attempt; `None` below the limit.
pub(crate) fn reason_if_last(max_attempts: u32, failed: &FailedAttempt<'_>) -> Option<String> {
    let code = failed.code;
    (failed.attempt >= max_attempts)
        .then(|| format!("max-attempts of {max_attempts} reached: {code}"))
}

impl Settings {
    /// Why the message is dead-lettered: its error is permanent, or the message reaches the limit of attempts or age. `None` if it is retried.
    pub fn reason_to_dead_letter(
        &self,
        failed: &FailedAttempt<'_>,
        class: Option<Class>,
    ) -> Option<String> {
        let code = failed.code;
        reason_if_permanent(class, code)
            .or_else(|| reason_if_last(self.max_attempts?.get(), failed))
            .or_else(|| {
                let oldest = self.max_age.filter(|oldest| failed.age >= *oldest)?;
                let oldest = format_duration(oldest.into());
                Some(format!("max-age of {oldest} reached: {code}"))
            })
    }

    /// The delay of a [formula](crate::formula), or the one that the failing service asked for if that is longer, up to [`LONGEST_DELAY`]. `cap` limits only the formula.
    pub fn delay(&self, by_formula: Milliseconds, failed: &FailedAttempt<'_>) -> Milliseconds {
        let asked_for = failed.retry_after.filter(|_| self.respect_retry_after);
        by_formula.max(asked_for.unwrap_or(0).min(LONGEST_DELAY))
    }
}
