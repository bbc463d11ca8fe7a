//! What a recorded decision reveals about the policy that was evaluated.

use super::answer::NotComparable;
use backstop_core::decision::{DecidedBy, Decision, FallbackKind};
use backstop_core::failure::Failure;
use backstop_core::fallback;

/// Why the recorded policy may answer differently when it is evaluated again. `None` if it can't.
pub(super) fn unrepeatable(decided_by: &DecidedBy) -> Option<NotComparable> {
    let DecidedBy::Fallback(cause) = decided_by else {
        return None;
    };
    match cause.kind {
        FallbackKind::OutOfTime => Some(NotComparable::OutOfTime),
        FallbackKind::NotLoaded | FallbackKind::HostFailed => Some(NotComparable::NoPolicy),
        FallbackKind::OutOfFuel
        | FallbackKind::OutOfBounds
        | FallbackKind::Trapped
        | FallbackKind::RejectedSettings
        | FallbackKind::NoSettings
        | FallbackKind::InvalidAnswer => None,
    }
}

/// Whether a record reveals if its policy was broken. If a queue limit decided, it does so only when the policy wanted to discard the message, which the fallback never does, or when the class is not the fallback's.
pub(super) fn reveals_broken_policy(decision: &Decision, failure: &Failure) -> bool {
    !matches!(decision.decided_by, DecidedBy::Bound(_))
        || decision.kept_from_discarding().is_some()
        || decision.class != fallback::class(&failure.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_and_missing_policies_are_not_comparable() {
        for (record, expected) in [
            (
                r#"{"by":"fallback","cause":"the policy took too long","kind":"out-of-time"}"#,
                Some(NotComparable::OutOfTime),
            ),
            (
                r#"{"by":"fallback","cause":"the policy is missing","kind":"not-loaded"}"#,
                Some(NotComparable::NoPolicy),
            ),
            (
                r#"{"by":"fallback","cause":"the policy ran out of fuel","kind":"out-of-fuel"}"#,
                None,
            ),
            // Records of the first builds have no kind.
            (
                r#"{"by":"fallback","cause":"the policy was stopped after 2s in delay"}"#,
                Some(NotComparable::OutOfTime),
            ),
            (
                r#"{"by":"fallback","cause":"the policy is not at work: can't read the policy"}"#,
                Some(NotComparable::NoPolicy),
            ),
            (
                r#"{"by":"fallback","cause":"the host failed while it asked the policy"}"#,
                Some(NotComparable::NoPolicy),
            ),
            (
                r#"{"by":"fallback","cause":"the policy ran out of fuel after 5 units in delay"}"#,
                None,
            ),
            (r#"{"by":"policy"}"#, None),
        ] {
            let decided_by: DecidedBy = serde_json::from_str(record).unwrap();
            assert_eq!(unrepeatable(&decided_by), expected, "{record}");
        }
    }
}
