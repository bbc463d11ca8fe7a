//! What a policy may mean, and hardly ever does: to give up on calls that are throttled, and to try again at once however often that has failed. An author is warned of it.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_backoff::{CODES, Class};

use backstop::policy::{Payload, Policy};
use backstop_core::decision::{Action, Answer, LONGEST_DELAY};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};
use backstop_versions::scenario::plain_failure;

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

/// How long each attempt takes before it fails, in milliseconds.
const HANDLED: u32 = 1_234;

/// How long it may take as well: a moment that is waited for may come just after one of them, and not after all.
const OTHERWISE_HANDLED: [u32; 2] = [90, 17_700];

/// No message is much older when an attempt begins, in milliseconds: a queue keeps none for longer.
const OLDEST: u32 = LONGEST_DELAY.0 - 60_000;

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
    let answer = policy.evaluate(failure, &Arc::<Payload>::default()).answer;
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

/// The first late attempt that comes at once although the random number speaks for the longest delay, and its delay. The message has failed at each attempt before: its age and its last delay are what the policy made of those.
fn hurried(policy: &Policy) -> Option<(u32, Milliseconds)> {
    let (mut reached, mut began) = (0, 0_u64);
    let mut previous_delay = None;
    for attempt in (1..=70).chain(LATER) {
        // The attempts in between, if any, waited as the last one did.
        if let Some(Milliseconds(delay)) = previous_delay {
            let each = u64::from(delay) + u64::from(HANDLED);
            began = began.saturating_add(each.saturating_mul((attempt - reached).into()));
            began = began.min(OLDEST.into());
        }
        reached = attempt;
        let number = NonZeroU32::new(attempt)?;
        let delay_after = |handled: u32| {
            let age = began + u64::from(handled);
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
        // One that gives up does not try any later one.
        let delay = delay_after(HANDLED)?;
        let is_at_once = |delay: Milliseconds| delay < AT_ONCE;
        let comes_at_once = attempt >= LATE
            && is_at_once(delay)
            && OTHERWISE_HANDLED
                .iter()
                .all(|handled| delay_after(*handled).is_some_and(is_at_once));
        if comes_at_once {
            return Some((attempt, delay));
        }
        previous_delay = Some(delay);
    }
    None
}
