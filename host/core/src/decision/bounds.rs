//! The bounds that the host enforces on every answer.

use std::num::NonZeroU32;

use super::answer::{Action, Answer};
use super::decided_by::{DecidedBy, Decision};
use super::hold::{Hold, Reach};
use crate::failure::{Failure, Milliseconds};

/// The bound that dead-letters a message which the policy wants to discard.
const NO_DISCARD: &str = "the queue's allow-discard is false";

impl Decision {
    /// The policy's reason to discard a message that [`Bounds::allow_discard`] dead-letters instead.
    pub fn kept_from_discarding(&self) -> Option<&str> {
        match (&self.decided_by, &self.action) {
            (DecidedBy::Bound(bound), Action::DeadLetter { reason }) if bound == NO_DISCARD => {
                reason.strip_prefix(NO_DISCARD)?.strip_prefix(": ")
            }
            _ => None,
        }
    }
}

/// The limits of the operator and of the queue. By default nothing is limited, and a policy may discard messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most attempts of one message. Work [in progress elsewhere](crate::failure::Error::is_in_progress) is no attempt.
    pub max_attempts: Option<NonZeroU32>,
    /// A message that would be this old at its next attempt is not retried.
    pub max_age: Option<Milliseconds>,
    /// When the queue drops a message, counted from when it was sent. The message is dead-lettered earlier.
    pub retention: Option<Milliseconds>,
    /// Whether the policy may discard a message. Otherwise the message is dead-lettered.
    pub allow_discard: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_attempts: None,
            max_age: None,
            retention: None,
            allow_discard: true,
        }
    }
}

impl Bounds {
    /// Applies the bounds to `answer`. `reach` is how long the message can be held now.
    ///
    /// A retry may become a shorter retry or a dead letter, and a discard may become a dead letter. A message that the policy gives up is never retried.
    pub(super) fn enforce(
        &self,
        failure: &Failure,
        answer: Answer,
        decided_by: DecidedBy,
        reach: Reach,
    ) -> Decision {
        let Answer {
            class,
            action,
            down_for,
        } = answer;
        let wanted = match action {
            Action::Retry { delay } => delay,
            Action::Discard { reason } if !self.allow_discard => {
                return Decision {
                    class,
                    action: Action::DeadLetter {
                        reason: format!("{NO_DISCARD}: {reason}"),
                    },
                    decided_by: DecidedBy::Bound(NO_DISCARD.to_owned()),
                    hold: Hold::default(),
                    down_for,
                };
            }
            Action::DeadLetter { .. } | Action::Discard { .. } => {
                return Decision {
                    class,
                    action,
                    decided_by,
                    hold: Hold::default(),
                    down_for,
                };
            }
        };
        let (hold, delay) = reach.hold(wanted, |delay| self.keeps(reach.kept, delay));
        let bound = self.crossed_by(failure, delay);
        let bound = bound.or_else(|| match hold {
            Hold::Visibility if !self.keeps(reach.kept, delay) => self.retention.map(|retention| {
                format!("the next attempt would come after the queue's retention of {retention}")
            }),
            Hold::Visibility | Hold::Resend => None,
        });
        if let Some(bound) = bound {
            let reason = format!("{bound}: {}", failure.error.code);
            return Decision {
                class,
                action: Action::DeadLetter { reason },
                decided_by: DecidedBy::Bound(bound),
                hold: Hold::default(),
                down_for,
            };
        }
        let decided_by = match decided_by {
            DecidedBy::Policy if delay < wanted => DecidedBy::Shortened(wanted),
            DecidedBy::Policy
            | DecidedBy::Shortened(_)
            | DecidedBy::Bound(_)
            | DecidedBy::Fallback(_) => decided_by,
        };
        Decision {
            class,
            action: Action::Retry { delay },
            decided_by,
            hold,
            down_for,
        }
    }

    fn crossed_by(&self, failure: &Failure, delay: Milliseconds) -> Option<String> {
        if let Some(most) = self.max_attempts
            && failure.attempt >= most
            && !failure.error.is_in_progress()
        {
            return Some(format!("the queue's max-attempts of {most} reached"));
        }
        let next = failure.age.0.saturating_add(delay.0);
        if let Some(oldest) = self.max_age
            && next >= oldest.0
        {
            return Some(format!("the queue's max-age of {oldest} reached"));
        }
        None
    }

    /// Whether the queue, which has kept a message for `kept`, keeps it for `delay` more.
    fn keeps(&self, kept: Milliseconds, delay: Milliseconds) -> bool {
        self.retention
            .is_none_or(|retention| is_kept(retention, kept, delay))
    }
}

/// Whether a queue with this retention, which has kept a message for `kept`, keeps it for `delay` more. A part of the retention is reserved to receive the next attempt: five minutes, or a tenth of the retention if that is less.
pub fn is_kept(retention: Milliseconds, kept: Milliseconds, delay: Milliseconds) -> bool {
    let margin = (retention.0 / 10).min(5 * 60_000);
    kept.0.saturating_add(delay.0) < retention.0.saturating_sub(margin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::ErrorClass;
    use crate::failure::{Error, Timestamp};

    fn failure(attempt: u32, age: u32) -> Failure {
        Failure {
            message_id: "m".to_owned(),
            source: "local:q".to_owned(),
            attempt: NonZeroU32::new(attempt).unwrap(),
            age: Milliseconds(age),
            failed_at: Timestamp(0),
            previous_delay: None,
            error: Error::new("HTTP 503", ""),
            attributes: Vec::new(),
            random: 0.0,
        }
    }

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
    fn the_host_enforces_its_bounds_on_every_answer() {
        let bounds = Bounds {
            max_attempts: NonZeroU32::new(5),
            max_age: Some(Milliseconds(60_000)),
            retention: Some(Milliseconds(60_000)),
            ..Bounds::default()
        };
        let max_delay = Milliseconds(40_000);
        for (attempt, age, wanted, expected) in [
            (1, 0, 1_000, Ok((1_000, DecidedBy::Policy))),
            (
                1,
                0,
                50_000,
                Ok((40_000, DecidedBy::Shortened(Milliseconds(50_000)))),
            ),
            (4, 52_999, 1_000, Ok((1_000, DecidedBy::Policy))),
            (5, 0, 1_000, Err("the queue's max-attempts of 5 reached")),
            (1, 59_000, 1_000, Err("the queue's max-age of 1m reached")),
            (
                1,
                53_000,
                1_000,
                Err("the next attempt would come after the queue's retention of 1m"),
            ),
        ] {
            let decision = bounds.enforce(
                &failure(attempt, age),
                retry(wanted),
                DecidedBy::Policy,
                Reach::visibility(max_delay, Milliseconds(age)),
            );
            let (action, decided_by) = match expected {
                Ok((delay, by)) => (
                    Action::Retry {
                        delay: Milliseconds(delay),
                    },
                    by,
                ),
                Err(bound) => (
                    Action::DeadLetter {
                        reason: format!("{bound}: HTTP 503"),
                    },
                    DecidedBy::Bound(bound.to_owned()),
                ),
            };
            assert_eq!(
                decision,
                Decision {
                    class: ErrorClass::Transient,
                    action,
                    decided_by,
                    hold: Hold::Visibility,
                    down_for: None,
                }
            );
        }
    }

    #[test]
    fn work_in_progress_elsewhere_is_given_up_by_age_and_not_by_attempts() {
        let bounds = Bounds {
            max_attempts: Some(NonZeroU32::MIN),
            max_age: Some(Milliseconds(60_000)),
            ..Bounds::default()
        };
        for (retry_after, age, bound) in [
            (Some(20_000), 0, None),
            (Some(20_000), 45_000, Some("max-age")),
            (None, 0, Some("max-attempts")),
            // A lease that is over keeps nobody waiting.
            (Some(0), 0, Some("max-attempts")),
        ] {
            let error = Error {
                retry_after: retry_after.map(Milliseconds),
                ..Error::new("InProgress", "")
            };
            let failure = Failure {
                error,
                ..failure(9, age)
            };
            let reach = Reach::visibility(Milliseconds(40_000), Milliseconds(age));
            let decision = bounds.enforce(&failure, retry(20_000), DecidedBy::Policy, reach);
            match (bound, &decision.decided_by) {
                (None, DecidedBy::Policy) => {}
                (Some(bound), DecidedBy::Bound(crossed)) if crossed.contains(bound) => {}
                (_, other) => panic!("{bound:?} and {other:?}"),
            }
        }
    }

    #[test]
    fn a_discard_is_dead_lettered_if_the_operator_forbids_it() {
        let discard = |allow_discard| {
            let answer = Answer {
                action: Action::Discard {
                    reason: "too late".to_owned(),
                },
                ..retry(0)
            };
            let bounds = Bounds {
                allow_discard,
                ..Bounds::default()
            };
            let reach = Reach::visibility(Milliseconds(0), Milliseconds(0));
            bounds.enforce(&failure(1, 0), answer, DecidedBy::Policy, reach)
        };
        let allowed = discard(true);
        assert!(matches!(allowed.action, Action::Discard { .. }));
        assert_eq!(allowed.decided_by, DecidedBy::Policy);
        assert_eq!(allowed.kept_from_discarding(), None);
        let kept = discard(false);
        let bound = "the queue's allow-discard is false";
        assert_eq!(kept.decided_by, DecidedBy::Bound(bound.to_owned()));
        assert_eq!(
            kept.action,
            Action::DeadLetter {
                reason: format!("{bound}: too late")
            }
        );
        assert_eq!(kept.kept_from_discarding(), Some("too late"));
    }

    #[test]
    fn a_dead_letter_of_the_policy_stays_a_dead_letter() {
        let decision = Bounds::default().enforce(
            &failure(1, 0),
            dead_letter("because"),
            DecidedBy::Policy,
            Reach::visibility(Milliseconds(0), Milliseconds(0)),
        );
        assert_eq!(decision.action, dead_letter("because").action);
    }

    #[test]
    fn a_message_that_can_be_sent_again_waits_for_any_time() {
        use crate::decision::Resend;
        const DAY: u32 = 86_400_000;
        let bounds = Bounds {
            retention: Some(Milliseconds(DAY)),
            ..Bounds::default()
        };
        for (resend, kept, wanted, hold, delay) in [
            (Resend::IfNeeded, 0, 1_000, Hold::Visibility, 1_000),
            // Longer than its visibility timeout may be.
            (Resend::IfNeeded, 0, DAY / 2, Hold::Resend, DAY / 2),
            // Longer than the queue keeps it.
            (Resend::IfNeeded, DAY - 10_000, 1_000, Hold::Resend, 1_000),
            (Resend::Always, 0, 1_000, Hold::Resend, 1_000),
            (Resend::Always, 0, 3 * DAY, Hold::Resend, 3 * DAY),
            (Resend::Always, 0, u32::MAX, Hold::Resend, 14 * DAY),
        ] {
            let reach = Reach {
                visibility: Milliseconds(DAY / 3),
                kept: Milliseconds(kept),
                resend,
            };
            // Its age since it was first sent is no limit of the queue's.
            let failure = failure(1, 5 * DAY);
            let decision = bounds.enforce(&failure, retry(wanted), DecidedBy::Policy, reach);
            let action = Action::Retry {
                delay: Milliseconds(delay),
            };
            assert_eq!((decision.hold, decision.action), (hold, action), "{wanted}");
        }
    }
}
