//! How long messages wait that always fail: the simulation of `backstop policy simulate`, for `backstop doctor`.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_core::failure::{Error, Milliseconds};
use backstop_engine::{Payload, Policy};
use backstop_host::doctor::{Scope, Waits};
use backstop_workbench::default_threads;
use backstop_workbench::simulate::timetable::{HORIZON, Plan, Timetable, simulate};

/// The most and the fewest messages of a simulation.
const MOST_MESSAGES: u32 = 400;
const FEWEST_MESSAGES: u32 = 20;

/// About as many decisions are simulated at most, unless a message takes very many.
const DECISIONS: u32 = 40_000;

/// Follows messages that fail with HTTP 503 at every attempt. The same policy and scope give the same result on every machine.
pub(crate) fn waits(policy: &Policy, scope: &Scope) -> Waits {
    // A message waits after its last receive too.
    let horizon = scope
        .max_receives
        .map_or(HORIZON, |most| HORIZON.min(most.saturating_add(1)));
    let plan = |messages| Plan {
        messages,
        seed: 0,
        error: Error::new("HTTP 503", ""),
        source: scope.source.clone(),
        attributes: Vec::new(),
        bounds: scope.bounds,
        attempt_takes: Milliseconds(0),
        horizon,
    };
    let payload = Arc::new(Payload::new(String::new()));
    let simulated =
        |messages| simulate(policy, &payload, &plan(messages), default_threads(), || {});
    // One message shows how many decisions each of them takes.
    let attempts = simulated(1).attempts.len().max(1);
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    let messages = (DECISIONS / attempts).clamp(FEWEST_MESSAGES, MOST_MESSAGES);
    summary(simulated(messages), horizon)
}

fn summary(timetable: Timetable, horizon: NonZeroU32) -> Waits {
    let delays = timetable.attempts.iter().map(|row| row.delay.latest);
    // SQS ends those that reach the queue's maxReceiveCount.
    let is_unended = timetable.unended > 0 && horizon == HORIZON;
    let attempts = timetable.ended.iter().map(|end| end.attempts.latest);
    Waits {
        most_attempts: attempts.max().unwrap_or_default(),
        longest_delay: delays.max().unwrap_or_default(),
        of_messages: timetable.waits,
        unended_at: NonZeroU32::new(horizon.get() - 1).filter(|_| is_unended),
    }
}
