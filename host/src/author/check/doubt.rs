//! What a policy may mean, and hardly ever does: to give up on calls that are throttled, and to try again at once however often that has failed. An author is warned of it.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_backoff::{CODES, Class};

use crate::author::scenario::plain_failure;
use crate::decision::{Action, Answer};
use crate::failure::{Error, Failure, Milliseconds};
use crate::policy::{Payload, Policy};

/// From this attempt on, a delay is expected.
const LATE: u32 = 10;

/// Attempts at which a computed delay goes wrong: where a number of so many bits overflows, and around.
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

/// Below this, a late attempt comes at once.
const AT_ONCE: Milliseconds = Milliseconds(100);

/// So many are named.
const NAMED: usize = 3;

/// The warnings, each a sentence; none about a policy that breaks on the way.
pub(super) fn doubts(policy: &Policy) -> Vec<String> {
    let gives_up = given_up(policy).and_then(|codes| {
        let named = codes.iter().take(NAMED).cloned().collect::<Vec<_>>();
        let others = match codes.len().saturating_sub(NAMED) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        (!codes.is_empty()).then(|| {
            format!(
                "it gives up on throttled calls at the first attempt: {}{others}; such a service asks for less load, and not for none",
                named.join(", ")
            )
        })
    });
    let hurries = hurried(policy).map(|(attempt, delay)| {
        format!(
            "it tries again {delay} after attempt {attempt} has failed, even with the highest random number: a message that never succeeds comes back at once, for ever"
        )
    });
    gives_up.into_iter().chain(hurries).collect()
}

fn action(policy: &Policy, failure: &Failure) -> Option<Action> {
    let answer = policy.ask(failure, &Arc::<Payload>::default()).answer;
    answer.ok().map(|Answer { action, .. }| action)
}

/// The throttled calls that are given up, by a policy that does not give up everything.
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
        let told = format!("{}{status}", error.code);
        let failure = Failure {
            error,
            ..plain_failure()
        };
        if !is_retried(&failure)? {
            given_up.push(told);
        }
    }
    Some(given_up)
}

/// The codes that the host knows for such, as services report them: most of AWS with HTTP 400.
fn throttled() -> impl Iterator<Item = Error> {
    let rows = CODES
        .iter()
        .filter(|(class, ..)| *class == Class::Throttled);
    let codes = rows.flat_map(|(_, _, codes)| codes.iter());
    let of_aws = codes.flat_map(|code| [Some(400), None].map(|status| (*code, status)));
    [("HTTP 429", Some(429))]
        .into_iter()
        .chain(of_aws)
        .map(|(code, status)| Error {
            status,
            ..Error::new(code, "")
        })
}

/// The first late attempt that comes at once although everything speaks for a long delay, and its delay.
fn hurried(policy: &Policy) -> Option<(u32, Milliseconds)> {
    for attempt in (LATE..=70).chain(LATER) {
        let failure = Failure {
            attempt: NonZeroU32::new(attempt)?,
            age: Milliseconds(3_600_000),
            previous_delay: Some(Milliseconds(3_600_000)),
            random: 1.0 - f64::EPSILON / 2.0,
            ..plain_failure()
        };
        match action(policy, &failure)? {
            Action::Retry { delay } if delay < AT_ONCE => return Some((attempt, delay)),
            Action::Retry { .. } => {}
            // Nor does it try any later one.
            Action::DeadLetter { .. } | Action::Discard { .. } => return None,
        }
    }
    None
}
