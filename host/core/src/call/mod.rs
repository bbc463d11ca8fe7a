//! The rules of a call that a program retries: its limits, how it ends, and what its failures are that no service has reported. The retrier of `backstop-retry`, whose calls are futures, and the one of npm's package, whose calls are steps, go by them: what a failure is for a policy, what is decided, and what follows is [`Failing`]'s.

mod end;
mod failing;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::decision::{Action, Answer, DecidedBy, Decision, ErrorClass, REASON_BYTES};
use crate::failure::{Error, Failure, Milliseconds};
use crate::text::cut;

pub use end::{End, Ended};
pub use failing::{Failing, Follows, Guards, Limits};

/// The most attempts of a call whose policy is broken. The fallback itself retries forever, which suits a message in a queue but not a caller who waits.
pub const FALLBACK_ATTEMPTS: u32 = 5;

/// The longest time that a service may ask for, unless the program has another one.
pub const LONGEST_RETRY_AFTER: Milliseconds = Milliseconds(60_000);

/// Whether an attempt may start at this time: before the deadline, and with enough time for it.
pub fn has_room(start: Instant, deadline: Option<Instant>, min_attempt_time: Duration) -> bool {
    deadline.is_none_or(|deadline| {
        let left = deadline.saturating_duration_since(start);
        !left.is_zero() && left >= min_attempt_time
    })
}

/// The decision within the call's own limit of attempts, and the fallback's.
pub fn limit_attempts(failure: &Failure, decision: Decision, most: Option<NonZeroU32>) -> Decision {
    let Action::Retry { .. } = decision.action else {
        return decision;
    };
    let code = &failure.error.code;
    if let Some(most) = most
        && failure.attempt >= most
    {
        let bound = format!("the retrier's max-attempts of {most} reached");
        return Decision {
            action: gives_up(format!("{bound}: {code}")),
            decided_by: DecidedBy::Bound(bound),
            ..decision
        };
    }
    if matches!(decision.decided_by, DecidedBy::Fallback(_))
        && failure.attempt.get() >= FALLBACK_ATTEMPTS
    {
        let reason =
            format!("the policy is broken, and {FALLBACK_ATTEMPTS} attempts failed: {code}");
        return Decision {
            action: gives_up(reason),
            ..decision
        };
    }
    decision
}

/// No further attempt, for this reason: as long as one of a policy.
fn gives_up(mut reason: String) -> Action {
    cut(&mut reason, REASON_BYTES);
    Action::DeadLetter { reason }
}

/// The answer to an error that the call's own `retry_if` refuses.
pub fn refused_by_call(failure: &Failure) -> Answer {
    let code = &failure.error.code;
    let action = gives_up(format!("the call's retry_if refuses the error: {code}"));
    Answer::new(ErrorClass::Permanent, action)
}

/// Who decides about such an error.
pub fn by_call() -> DecidedBy {
    DecidedBy::Bound("the call's retry_if".to_owned())
}

/// The failure of an attempt whose value the call does not take. Its status, which no server has sent, makes policies retry it that know only statuses, or the errors of AWS.
pub fn not_ready() -> Error {
    Error::new("NotReady", "the call's retry_if_ok does not take the value").status(503)
}

/// The failure of an attempt that took longer than its timeout.
pub fn timed_out(timeout: Duration) -> Error {
    let timeout = Milliseconds::from_duration(timeout);
    Error::new("Timeout", format!("the attempt took longer than {timeout}"))
}

/// The failure of an attempt that the deadline cut short.
pub fn out_of_time() -> Error {
    Error::new("Timeout", "the deadline came during the attempt")
}
