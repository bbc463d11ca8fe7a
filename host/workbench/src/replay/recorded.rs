//! What a recorded decision tells of the policy that was asked, and what it does not.

use std::time::Duration;

use super::NotComparable;
use backstop::policy::{EvaluationError, Phase};
use backstop_core::decision::{DecidedBy, Decision};
use backstop_core::failure::Failure;
use backstop_core::fallback;

/// Why the policy that was recorded may do otherwise when it is asked again, if it may.
pub(super) fn unrepeatable(decided_by: &DecidedBy) -> Option<NotComparable> {
    let DecidedBy::Fallback(cause) = decided_by else {
        return None;
    };
    // A record has the words of `EvaluationError` alone.
    let Some(broken) = cause.strip_prefix("the policy ") else {
        return Some(NotComparable::NoPolicy);
    };
    let words = |broken: EvaluationError| {
        let words = broken.to_string();
        words.split_inclusive(' ').take(3).collect::<String>()
    };
    let out_of_time = EvaluationError::OutOfTime(Duration::ZERO, Phase::Start);
    if broken.starts_with(&words(out_of_time)) {
        return Some(NotComparable::OutOfTime);
    }
    broken
        .starts_with(&EvaluationError::NotLoaded(String::new()).to_string())
        .then_some(NotComparable::NoPolicy)
}

/// Whether a record tells if its policy was broken. Where a bound decided it does not, unless the policy wanted to discard the message, which the fallback never does, or the class is another than the fallback's.
pub(super) fn tells_of_breaking(decision: &Decision, failure: &Failure) -> bool {
    !matches!(decision.decided_by, DecidedBy::Bound(_))
        || decision.kept_from_discarding().is_some()
        || decision.class != fallback::class(&failure.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_clock_or_a_missing_policy_did_is_not_repeated() {
        let stopped = EvaluationError::OutOfTime(Duration::from_secs(2), Phase::Delay);
        let absent = EvaluationError::NotLoaded("can't read the policy".to_owned());
        let fuel = EvaluationError::OutOfFuel(5, Phase::Delay);
        for (cause, expected) in [
            (
                format!("the policy {stopped}"),
                Some(NotComparable::OutOfTime),
            ),
            (
                format!("the policy {absent}"),
                Some(NotComparable::NoPolicy),
            ),
            (format!("the policy {fuel}"), None),
            (
                "the host failed while it asked the policy".to_owned(),
                Some(NotComparable::NoPolicy),
            ),
        ] {
            let found = unrepeatable(&DecidedBy::Fallback(cause.clone()));
            assert_eq!(found, expected, "{cause}");
        }
        assert_eq!(unrepeatable(&DecidedBy::Policy), None);
    }
}
