//! Warnings about decisions that are allowed but rarely intended: giving up on throttled calls, and immediate retries at late attempts.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_backoff::{CODES, Class};

use backstop_core::decision::{Action, Answer, LONGEST_DELAY};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};
use backstop_engine::{Payload, Policy};
use backstop_versions::scenario::plain_failure;

/// From this attempt on, a delay is expected.
const LATE: u32 = 10;

/// Attempts at which computed delays tend to go wrong: around the overflows of integers.
const LATER: [u32; 12] = [
    100,
    127,
    128,
    129,
    255,
    256,
    257,
    1_000,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX,
];

/// A shorter delay counts as an immediate retry.
const IMMEDIATE: Milliseconds = Milliseconds(100);

/// The duration of each attempt until it fails, in milliseconds.
const DURATION: u32 = 1_234;

/// Other durations of an attempt. A policy that waits for a point in time may give a short delay for one of them, but not for all.
const OTHER_DURATIONS: [u32; 2] = [90, 17_700];

/// The highest age at the start of an attempt, in milliseconds: queues keep messages for 14 days.
const OLDEST: u32 = LONGEST_DELAY.0 - 60_000;

/// The number of codes that a warning names.
const MAX_NAMED: usize = 3;

/// The warnings, each a sentence. None if the policy breaks.
pub(super) fn warnings(policy: &Policy) -> Vec<String> {
    let gives_up = given_up(policy).and_then(|codes| {
        let named = codes.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>();
        let others = match codes.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        (!codes.is_empty()).then(|| {
            format!(
                "it gives up on throttled calls at the first attempt: {}{others}; a service that throttles asks for fewer calls, not for none",
                named.join(", ")
            )
        })
    });
    let immediate = immediate_retry(policy).map(|(attempt, delay)| {
        format!(
            "it retries {delay} after attempt {attempt} fails, even with the highest random number: a message that never succeeds is retried immediately, forever"
        )
    });
    gives_up.into_iter().chain(immediate).collect()
}

fn action(policy: &Policy, failure: &Failure) -> Option<Action> {
    let answer = policy.evaluate(failure, &Arc::<Payload>::default()).answer;
    answer.ok().map(|Answer { action, .. }| action)
}

/// The throttled calls that the policy gives up on. `None` if it gives up on every failure.
fn given_up(policy: &Policy) -> Option<Vec<String>> {
    let is_retried = |failure: &Failure| {
        action(policy, failure).map(|action| matches!(action, Action::Retry { .. }))
    };
    if !is_retried(&plain_failure())? {
        return None;
    }
    let mut given_up = Vec::new();
    for error in throttled() {
        let status = error
            .status
            .map_or_else(String::new, |status| format!(" (HTTP {status})"));
        let name = format!("{}{status}", error.code);
        let failure = Failure {
            error,
            ..plain_failure()
        };
        if !is_retried(&failure)? {
            given_up.push(name);
        }
    }
    Some(given_up)
}

/// The throttling errors that the host knows, as services report them: AWS mostly with HTTP 400.
fn throttled() -> impl Iterator<Item = Error> {
    let rows = CODES
        .iter()
        .filter(|(class, ..)| *class == Class::Throttled);
    let codes = rows.flat_map(|(_, _, codes)| codes.iter());
    let of_aws = codes.flat_map(|code| [Some(400), None].map(|status| (*code, status)));
    [("HTTP 429", Some(429))]
        .into_iter()
        .chain(of_aws)
        .map(|(code, status)| Error::new(code, "").status(status))
}

/// The first late attempt that is retried immediately even with the random number of the longest delay, and that delay. The message has failed at each earlier attempt, and its age and previous delay follow from the policy's own answers.
fn immediate_retry(policy: &Policy) -> Option<(u32, Milliseconds)> {
    let (mut reached, mut started) = (0, 0_u64);
    let mut previous_delay = None;
    for attempt in (1..=70).chain(LATER) {
        // The attempts that were left out had the same delay as the last one.
        if let Some(Milliseconds(delay)) = previous_delay {
            let each = u64::from(delay) + u64::from(DURATION);
            started = started.saturating_add(each.saturating_mul((attempt - reached).into()));
            started = started.min(OLDEST.into());
        }
        reached = attempt;
        let number = NonZeroU32::new(attempt)?;
        let delay_after = |duration: u32| {
            let age = started + u64::from(duration);
            let plain = plain_failure();
            let failure = Failure {
                attempt: number,
                age: Milliseconds(u32::try_from(age).ok()?),
                failed_at: Timestamp(plain.failed_at.0 + age),
                previous_delay,
                random: 1.0 - f64::EPSILON / 2.0,
                ..plain
            };
            match action(policy, &failure)? {
                Action::Retry { delay } => Some(delay),
                Action::DeadLetter { .. } | Action::Discard { .. } => None,
            }
        };
        // If the policy gives up, there is no later attempt.
        let delay = delay_after(DURATION)?;
        let is_immediate = |delay: Milliseconds| delay < IMMEDIATE;
        let retries_immediately = attempt >= LATE
            && is_immediate(delay)
            && OTHER_DURATIONS
                .iter()
                .all(|duration| delay_after(*duration).is_some_and(is_immediate));
        if retries_immediately {
            return Some((attempt, delay));
        }
        previous_delay = Some(delay);
    }
    None
}
