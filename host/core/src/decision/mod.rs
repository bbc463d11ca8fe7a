//! A decision on a failure: what the policy answers, and what the host makes of it.
//!
//! A policy gives an [`Answer`]. [`decide`] turns it into the [`Decision`] that the host applies: the fallback answers for a broken policy, and [`Bounds`] limits every answer.
//!
//! ```
//! use std::num::NonZeroU32;
//!
//! use backstop_core::decision::{Action, Answer, Bounds, ErrorClass, Reach, decide};
//! use backstop_core::examples::ordinary_failure;
//! use backstop_core::failure::Milliseconds;
//!
//! let delay = Milliseconds(2_000);
//! let answer = Answer::new(ErrorClass::Transient, Action::Retry { delay });
//! let bounds = Bounds { max_attempts: NonZeroU32::new(1), ..Bounds::default() };
//!
//! let failure = ordinary_failure();
//! let reach = Reach::visibility(Milliseconds(60_000), failure.age);
//! let decision = decide(&failure, Ok(answer), &bounds, reach);
//! assert!(matches!(decision.action, Action::DeadLetter { .. }));
//! ```

mod answer;
mod bounds;
mod decided_by;
pub mod fallback;
mod hold;

use crate::failure::Failure;

pub use answer::{
    Action, Answer, CLASS_BYTES, ErrorClass, InvalidAnswer, LONGEST_DELAY, REASON_BYTES, Verdict,
};
pub use bounds::{Bounds, is_kept};
pub use decided_by::{DecidedBy, Decision, FallbackCause, FallbackKind};
pub use hold::{Hold, Reach, Resend};

/// The decision on a failure: the policy's answer, or the fallback's for a broken policy, within the bounds.
///
/// `reach` is how long the message can be held now.
pub fn decide(
    failure: &Failure,
    answer: Result<Answer, FallbackCause>,
    bounds: &Bounds,
    reach: Reach,
) -> Decision {
    match answer {
        Ok(answer) => bounds.enforce(failure, answer, DecidedBy::Policy, reach),
        Err(cause) => bounds.enforce(
            failure,
            fallback::decide(failure),
            DecidedBy::Fallback(cause),
            reach,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::failure::Milliseconds;

    fn retry(delay: u32) -> Answer {
        Answer::new(
            ErrorClass::Transient,
            Action::Retry {
                delay: Milliseconds(delay),
            },
        )
    }

    fn dead_letter(reason: &str) -> Answer {
        Answer::new(
            ErrorClass::Permanent,
            Action::DeadLetter {
                reason: reason.to_owned(),
            },
        )
    }

    #[test]
    fn logs_and_metrics_spell_a_decision_as_its_record_does() {
        let reason = "because".to_owned();
        let actions = [
            retry(1).action,
            dead_letter("because").action,
            Action::Discard { reason },
        ];
        let deciders = [
            DecidedBy::Policy,
            DecidedBy::Shortened(Milliseconds(1)),
            DecidedBy::Bound("b".to_owned()),
            DecidedBy::Fallback(FallbackCause::new(FallbackKind::Trapped, "f")),
        ];
        let classes = [
            ErrorClass::Transient,
            ErrorClass::Throttled,
            ErrorClass::Permanent,
        ];
        for action in &actions {
            for decided_by in &deciders {
                for class in &classes {
                    let record = serde_json::to_value(Decision {
                        class: class.clone(),
                        action: action.clone(),
                        decided_by: decided_by.clone(),
                        hold: Hold::Resend,
                        down_for: None,
                    })
                    .unwrap();
                    assert_eq!(record["verdict"], action.verdict().to_string());
                    assert_eq!(
                        serde_json::to_value(action.verdict()).unwrap(),
                        record["verdict"]
                    );
                    assert_eq!(record["by"], decided_by.to_string());
                    assert_eq!(record["class"], class.to_string());
                }
            }
        }
    }

    #[test]
    fn the_fallback_retries_for_a_broken_policy() {
        let cause = FallbackCause::new(FallbackKind::OutOfFuel, "the policy ran out of fuel");
        let failure = crate::examples::ordinary_failure();
        let decision = decide(
            &failure,
            Err(cause.clone()),
            &Bounds::default(),
            Reach::visibility(LONGEST_DELAY, failure.age),
        );
        assert_eq!(decision.decided_by, DecidedBy::Fallback(cause));
        assert_eq!(decision.action.verdict(), Verdict::Retry);
    }
}
