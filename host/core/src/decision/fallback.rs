//! The host's own answers: for an interface that a component does not export, and for a broken policy.
//!
//! Exponential backoff with full jitter, base 1 s, cap 12 h, and the default classification. `Retry-After` is respected as the built-in policies do. A broken policy never dead-letters or discards a message.

use backstop_backoff::{Settings, classify, formula, reason_if_permanent};

use super::answer::{Action, Answer, ErrorClass};
use crate::failure::{Error, Failure, Milliseconds};

/// The class of an error in the default table.
pub fn class(error: &Error) -> ErrorClass {
    class_of(&error.code, error.status)
}

/// The class of a code and an HTTP status in the default table.
pub fn class_of(code: &str, status: Option<u16>) -> ErrorClass {
    classify(code, status).into()
}

/// The delay of `full-jitter` with its default settings: `U(0, min(12 h, 1 s * 2^(n-1)))`, raised to the service's `Retry-After` up to [`LONGEST_DELAY`](super::LONGEST_DELAY). The cap applies to the random delay only.
pub fn delay(failure: &Failure) -> Milliseconds {
    let settings = Settings::default();
    let failed = failure.into();
    Milliseconds(settings.delay(formula::full_jitter(&settings, &failed), &failed))
}

/// The reason to dead-letter a permanent error; `None` for every other class.
pub fn reason_to_dead_letter(failure: &Failure, class: &ErrorClass) -> Option<String> {
    reason_if_permanent(class.known(), &failure.error.code)
}

/// The answer for a broken policy: always a retry.
pub fn decide(failure: &Failure) -> Answer {
    Answer::new(
        class(&failure.error),
        Action::Retry {
            delay: delay(failure),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::LONGEST_DELAY;
    use crate::examples::ordinary_failure;

    #[test]
    fn a_retry_after_may_exceed_the_cap() {
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
