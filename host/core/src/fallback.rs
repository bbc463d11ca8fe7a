//! What the host decides by itself: where a component leaves an interface out, and where a policy is broken.
//!
//! Exponential backoff with full jitter, base 1 s, cap 12 h, over the default classification; `Retry-After` as the built-in policies take it. A broken policy never dead-letters or discards a message.

use backstop_backoff::{Class, Settings, classify, jitter};

use crate::decision::{Action, Answer, ErrorClass, LONGEST_DELAY};
use crate::failure::{Error, Failure, Milliseconds};

/// The class of an error by the default table.
pub fn class(error: &Error) -> ErrorClass {
    class_of(&error.code, error.status)
}

/// The same of what the table looks at: a code and an HTTP status.
pub fn class_of(code: &str, status: Option<u16>) -> ErrorClass {
    match classify(code, status) {
        Class::Transient => ErrorClass::Transient,
        Class::Throttled => ErrorClass::Throttled,
        Class::Permanent => ErrorClass::Permanent,
    }
}

/// `U(0, min(12 h, 1 s * 2^(n-1)))`, and no less than the failing service asked for, up to [`LONGEST_DELAY`]: the cap bounds what is drawn alone.
pub fn delay(failure: &Failure) -> Milliseconds {
    let settings = Settings::default();
    let ceiling = jitter::exponential(settings.base, settings.cap, failure.attempt.get());
    let delay = Milliseconds(jitter::full(settings.floor, ceiling, failure.random));
    let asked_for = failure.error.retry_after.unwrap_or_default();
    delay.max(asked_for.min(LONGEST_DELAY))
}

/// Whether the default is to give up: the reason, for what is permanent.
pub fn reason_to_dead_letter(failure: &Failure, class: &ErrorClass) -> Option<String> {
    (*class == ErrorClass::Permanent).then(|| format!("permanent: {}", failure.error.code))
}

/// The answer in place of a broken policy's: always a retry.
pub fn decide(failure: &Failure) -> Answer {
    Answer {
        class: class(&failure.error),
        action: Action::Retry {
            delay: delay(failure),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::ordinary_failure;

    #[test]
    fn a_retry_after_lengthens_a_delay_beyond_the_cap_too() {
        for (retry_after, expected) in [
            (None, 500),
            (Some(200), 500),
            (Some(13 * 3_600_000), 13 * 3_600_000),
            (Some(u32::MAX), LONGEST_DELAY.0),
        ] {
            let mut failure = ordinary_failure();
            failure.error.retry_after = retry_after.map(Milliseconds);
            assert_eq!(delay(&failure), Milliseconds(expected), "{retry_after:?}");
        }
    }
}
