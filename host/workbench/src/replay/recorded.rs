//! What a recorded decision tells of the policy that was asked, and what it does not.

use std::time::Duration;

use super::Apart;
use backstop::policy::{Broken, Phase};
use backstop_core::decision::{DecidedBy, Decision};
use backstop_core::failure::Failure;
use backstop_core::fallback;

/// Why the policy that was recorded may do otherwise when it is asked again, if it may.
pub(super) fn unrepeatable(decided_by: &DecidedBy) -> Option<Apart> {
    let DecidedBy::Fallback(cause) = decided_by else {
        return None;
    };
    // A record has the words of `Broken` alone.
    let Some(broken) = cause.strip_prefix("the policy ") else {
        return Some(Apart::NoPolicy);
    };
    let words = |broken: Broken| {
        let words = broken.to_string();
        words.split_inclusive(' ').take(3).collect::<String>()
    };
    let out_of_time = Broken::OutOfTime(Duration::ZERO, Phase::Start);
    if broken.starts_with(&words(out_of_time)) {
        return Some(Apart::OutOfTime);
    }
    broken
        .starts_with(&Broken::NotLoaded(String::new()).to_string())
        .then_some(Apart::NoPolicy)
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
        let stopped = Broken::OutOfTime(Duration::from_secs(2), Phase::Delay);
        let absent = Broken::NotLoaded("can't read the policy".to_owned());
        let fuel = Broken::OutOfFuel(5, Phase::Delay);
        for (cause, expected) in [
            (format!("the policy {stopped}"), Some(Apart::OutOfTime)),
            (format!("the policy {absent}"), Some(Apart::NoPolicy)),
            (format!("the policy {fuel}"), None),
            (
                "the host failed while it asked the policy".to_owned(),
                Some(Apart::NoPolicy),
            ),
        ] {
            let found = unrepeatable(&DecidedBy::Fallback(cause.clone()));
            assert_eq!(found, expected, "{cause}");
        }
        assert_eq!(unrepeatable(&DecidedBy::Policy), None);
    }
}
