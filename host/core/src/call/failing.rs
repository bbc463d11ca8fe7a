//! What a call remembers from its first failure on, and what follows each failure.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::{End, LONGEST_RETRY_AFTER, by_call, has_room, limit_attempts};
use crate::breaker::Outcome;
use crate::decision::{
    Action, Answer, Bounds, Decision, ErrorClass, FallbackCause, LONGEST_DELAY, Reach, decide,
};
use crate::failure::{Error, Failure, Milliseconds, Timestamp, random};

/// The limits of a retrier, which all of its calls have.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The `source` of failures.
    pub source: String,
    max_attempts: Option<NonZeroU32>,
    max_delay: Milliseconds,
    /// The same, not rounded.
    longest_wait: Duration,
    max_retry_after: Milliseconds,
}

impl Limits {
    /// The limits that a program sets.
    pub fn new(
        source: String,
        max_attempts: Option<NonZeroU32>,
        max_delay: Option<Duration>,
        max_retry_after: Option<Duration>,
    ) -> Self {
        Self {
            source,
            max_attempts,
            max_delay: max_delay.map_or(LONGEST_DELAY, |longest| {
                Milliseconds::from_duration(longest).min(LONGEST_DELAY)
            }),
            longest_wait: max_delay.unwrap_or(Duration::MAX),
            max_retry_after: match (max_retry_after, max_delay) {
                (Some(longest), _) => Milliseconds::from_duration(longest),
                // It shortens the delay that the policy makes of it.
                (None, Some(_)) => Milliseconds(u32::MAX),
                (None, None) => LONGEST_RETRY_AFTER,
            },
        }
    }

    /// How long a call waits for a delay. A decision has whole milliseconds, and the longest delay may be shorter than one.
    pub fn wait(&self, delay: Milliseconds) -> Duration {
        delay.as_duration().min(self.longest_wait)
    }

    /// The decision that follows from an answer, within the limits. The call itself has decided if `is_by_call`.
    pub fn decide(
        &self,
        failure: &Failure,
        answer: Result<Answer, FallbackCause>,
        is_by_call: bool,
    ) -> Decision {
        let reach = Reach::visibility(self.max_delay, failure.age);
        let decision = decide(failure, answer, &Bounds::default(), reach);
        let mut decision = limit_attempts(failure, decision, self.max_attempts);
        if is_by_call {
            decision.decided_by = by_call();
        }
        decision
    }
}

/// What bounds the attempts of many calls together.
pub trait Guards {
    /// What a retry took out of the budget.
    type Reservation;
    /// Why the breaker refuses an attempt.
    type Refusal;

    /// Refuses an attempt at a later time at which the breaker is still open for sure.
    fn refuses_at(&self, time: Instant, now: Instant) -> Option<Self::Refusal>;

    /// Takes a retry out of the budget, if there is one. `None` if the budget does not allow it.
    fn reserve(&self, class: &ErrorClass, now: Instant) -> Option<Option<Self::Reservation>>;
}

/// What follows a failed attempt.
#[derive(Debug)]
pub enum Follows<G: Guards> {
    /// Another attempt at this time, so long after the failure.
    Retry {
        /// When it begins.
        at: Instant,
        /// How long the call waits, from the failure.
        waits: Duration,
        /// What it took out of the budget.
        reservation: Option<G::Reservation>,
    },
    /// The end, which the breaker may have made.
    End(End, Option<G::Refusal>),
}

/// What a call remembers from its first failure on. A call that succeeds at once has none.
#[derive(Debug)]
pub struct Failing {
    /// The id of the call.
    pub id: String,
    /// When the first attempt failed.
    pub first_failed: Instant,
    /// When the last attempt failed.
    pub failed_at: Instant,
    /// The delay before the last attempt.
    pub previous_delay: Option<Milliseconds>,
    /// The last failure.
    pub description: Error,
    /// The decision on the last failure.
    pub decision: Option<Decision>,
}

impl Failing {
    /// The state of a call with this id after its first failure, now.
    pub fn new(id: String, now: Instant) -> Self {
        Self {
            id,
            first_failed: now,
            failed_at: now,
            previous_delay: None,
            description: Error::default(),
            decision: None,
        }
    }

    /// The attempt that has failed now as a policy receives it, within the bounds of the contract.
    pub fn failure(
        &mut self,
        limits: &Limits,
        attempt: NonZeroU32,
        error: Error,
        attributes: &[(String, String)],
        (now, time): (Instant, Timestamp),
    ) -> Failure {
        self.failed_at = now;
        let age = now.saturating_duration_since(self.first_failed);
        let failure = Failure {
            message_id: self.id.clone(),
            source: limits.source.clone(),
            attempt,
            age: Milliseconds::from_duration(age),
            failed_at: time,
            previous_delay: self.previous_delay,
            random: random(&self.id, attempt),
            error,
            attributes: attributes.to_vec(),
        };
        let bounded = match failure.within_bounds() {
            Cow::Borrowed(_) => None,
            Cow::Owned(bounded) => Some(bounded),
        };
        let mut failure = bounded.unwrap_or(failure);
        self.description = failure.error.clone();
        let asked = failure.error.retry_after;
        failure.error.retry_after = asked.map(|it| it.min(limits.max_retry_after));
        failure
    }

    /// What the breaker learns from the failure, about which this was decided.
    pub fn outcome(&self, failure: &Failure, decision: &Decision) -> Outcome {
        let asked = self.description.retry_after.map(Milliseconds::as_duration);
        let down_for = decision.down_for.map(Milliseconds::as_duration);
        Outcome::of_failure(
            &decision.class,
            self.failed_at,
            asked,
            down_for,
            failure.random,
        )
    }

    /// What follows the decision: the deadline comes first, then the breaker, then the budget. The breaker has learned of the failure before, and what the last retry took out of the budget is spent.
    pub fn follows<G: Guards>(
        &mut self,
        guards: &G,
        limits: &Limits,
        decision: &Decision,
        (deadline, min_attempt_time): (Option<Instant>, Duration),
        now: Instant,
    ) -> Follows<G> {
        let Action::Retry { delay } = decision.action else {
            let end = match decision.class {
                ErrorClass::Permanent => End::Permanent,
                ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Other(_) => End::GaveUp,
            };
            return Follows::End(end, None);
        };
        let waits = limits.wait(delay);
        let at = self.failed_at + waits;
        let later = at.max(now);
        if !has_room(later, deadline, min_attempt_time) {
            return Follows::End(End::DeadlineExceeded, None);
        }
        if let Some(refusal) = guards.refuses_at(later, now) {
            return Follows::End(End::BreakerOpen, Some(refusal));
        }
        let Some(reservation) = guards.reserve(&decision.class, now) else {
            return Follows::End(End::BudgetExhausted, None);
        };
        self.previous_delay = Some(delay);
        Follows::Retry {
            at,
            waits,
            reservation,
        }
    }
}
