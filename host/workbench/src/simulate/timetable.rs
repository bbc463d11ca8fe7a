//! When messages that always fail are retried. Each message is followed from its first failure to its end.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;

use super::evaluator::{Evaluation, Evaluator, instance_kind};
use super::spread::Percentiles;
use crate::threads;
use backstop_core::decision::{Action, Bounds, LONGEST_DELAY, Reach, decide};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};
use backstop_engine::{Payload, Policy};

/// When the messages are sent: 2026-01-01, so that a policy that depends on the date sees the same one in every simulation.
const START: Timestamp = Timestamp(1_767_225_600_000);

/// The highest `maxReceiveCount` of SQS. No message needs to be followed further.
pub const HORIZON: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of messages, all sent at the same time.
    pub messages: u32,
    /// The seed of their ids, and thus of their random numbers.
    pub seed: u64,
    /// The error of every attempt.
    pub error: Error,
    /// The queue or the function of the messages.
    pub source: String,
    /// The attributes of each message.
    pub attributes: Vec<(String, String)>,
    /// The queue limits.
    pub bounds: Bounds,
    /// The time from the start of an attempt to its failure.
    pub attempt_takes: Milliseconds,
    /// No message is followed beyond this attempt.
    pub horizon: NonZeroU32,
}

/// The retries of all messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timetable {
    /// The number of messages.
    pub messages: u32,
    /// The attempts, from the second on.
    pub attempts: Vec<Row>,
    /// How messages ended, the most frequent first.
    pub ended: Vec<End>,
    /// The number of messages that were still retried at the plan's horizon.
    pub unended: u32,
    /// The second with the most retries.
    pub busiest_second: Option<Busiest>,
    /// How the policy broke, with the number of decisions that the fallback made instead.
    pub broken: BTreeMap<String, u32>,
    /// The kind of instance in which the policy was evaluated.
    pub evaluation: Evaluation,
    /// The time of every retry since its message's first failure, in milliseconds, by attempt.
    #[serde(skip)]
    pub times: Vec<Vec<u64>>,
    /// All delays of each message together, in milliseconds.
    #[serde(skip)]
    pub waits: Vec<u64>,
}

/// One attempt, over all messages that reach it. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The number of the attempt; the first retry is attempt 2.
    pub attempt: u32,
    /// The number of messages that reach it.
    pub messages: usize,
    /// The delay before it.
    pub delay: Percentiles,
    /// The time from the first failure to the start of the attempt.
    pub since_first_failure: Percentiles,
}

/// Messages that ended in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct End {
    /// `dead-letter` or `discard`.
    pub verdict: &'static str,
    /// Why.
    pub reason: String,
    /// The number of messages.
    pub messages: usize,
    /// The number of attempts.
    pub attempts: Percentiles,
    /// The time from the first failure to the end, in milliseconds.
    pub since_first_failure: Percentiles,
}

/// The second in which a service sees the most retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Busiest {
    /// Its start, in whole seconds from the first failure.
    pub after_seconds: u64,
    /// The number of retries in it.
    pub retries: u32,
}

/// The history of one message.
#[derive(Debug, Default)]
struct History {
    /// For each retry: the delay before it, and the time from the first failure to its start.
    retries: Vec<(u64, u64)>,
    end: Option<(&'static str, String, u64)>,
    broken: Vec<String>,
}

/// Follows the messages of `plan`, on this many threads. `done` is called after each message. The same plan gives the same timetable, with any number of threads and on any machine.
pub fn simulate(
    policy: &Policy,
    payload: &Arc<Payload>,
    plan: &Plan,
    threads: usize,
    done: impl Fn() + Sync,
) -> Timetable {
    let example = plan.failure(String::new(), NonZeroU32::MIN, 0, None);
    let evaluation = instance_kind(policy, payload, &example);
    let follow = |number| plan.follow(number, &mut Evaluator::new(policy, payload, evaluation));
    let count = usize::try_from(plan.messages).unwrap_or(usize::MAX);
    let histories = threads::spread(count, threads, follow, done);
    summarise(plan.messages, evaluation, histories)
}

impl Plan {
    /// `now` is the time from the first failure to this one.
    fn failure(
        &self,
        message_id: String,
        attempt: NonZeroU32,
        now: u64,
        previous_delay: Option<Milliseconds>,
    ) -> Failure {
        let age = now + u64::from(self.attempt_takes.0);
        Failure {
            random: random(&message_id, attempt),
            message_id,
            source: self.source.clone(),
            attempt,
            age: Milliseconds(u32::try_from(age).unwrap_or(u32::MAX)),
            failed_at: Timestamp(START.0 + age),
            previous_delay,
            error: self.error.clone(),
            attributes: self.attributes.clone(),
        }
    }

    /// Decides as a host does: the policy or, if it breaks, the fallback, within the queue limits.
    fn follow(&self, number: usize, evaluator: &mut Evaluator<'_>) -> History {
        let id = format!("simulated-{}-{number}", self.seed);
        let mut history = History::default();
        let (mut now, mut previous_delay) = (0, None);
        for attempt in (1..self.horizon.get()).filter_map(NonZeroU32::new) {
            let failure = self.failure(id.clone(), attempt, now, previous_delay);
            let answer = evaluator.evaluate(&failure).map_err(|error| {
                history.broken.push(error.to_string());
                error.cause()
            });
            let reach = Reach::visibility(LONGEST_DELAY, failure.age);
            let decision = decide(&failure, answer, &self.bounds, reach);
            let verdict = decision.action.verdict().as_str();
            let reason = match decision.action {
                Action::Retry { delay } => {
                    let starts = now + u64::from(delay.0);
                    history.retries.push((delay.0.into(), starts));
                    now = starts + u64::from(self.attempt_takes.0);
                    previous_delay = Some(delay);
                    continue;
                }
                Action::DeadLetter { reason } | Action::Discard { reason } => reason,
            };
            history.end = Some((verdict, reason, now));
            break;
        }
        history
    }
}

/// For messages that ended in the same way: the number of attempts of each, and the time of the end.
type Endings = (Vec<u64>, Vec<u64>);

fn summarise(messages: u32, evaluation: Evaluation, histories: Vec<History>) -> Timetable {
    let longest = histories.iter().map(|history| history.retries.len()).max();
    let mut delays = vec![Vec::new(); longest.unwrap_or_default()];
    let mut times = delays.clone();
    let mut endings: BTreeMap<(&'static str, String), Endings> = BTreeMap::new();
    let mut broken = BTreeMap::new();
    let mut unended = 0;
    let mut waits = Vec::new();
    for history in histories {
        waits.push(history.retries.iter().map(|(delay, _)| delay).sum());
        let attempts = history.retries.len() as u64 + 1;
        let columns = delays.iter_mut().zip(&mut times);
        for ((delay, at), (delays, times)) in history.retries.into_iter().zip(columns) {
            delays.push(delay);
            times.push(at);
        }
        for cause in history.broken {
            *broken.entry(cause).or_default() += 1;
        }
        match history.end {
            Some((verdict, reason, at)) => {
                let (made, ended) = endings.entry((verdict, reason)).or_default();
                made.push(attempts);
                ended.push(at);
            }
            None => unended += 1,
        }
    }
    let columns = delays.into_iter().zip(&times).zip(2..);
    let attempts = columns.map(|((delays, times), attempt)| Row {
        attempt,
        messages: times.len(),
        delay: Percentiles::of(delays),
        since_first_failure: Percentiles::of(times.clone()),
    });
    let ended = endings
        .into_iter()
        .map(|((verdict, reason), (made, ended))| End {
            verdict,
            reason,
            messages: made.len(),
            attempts: Percentiles::of(made),
            since_first_failure: Percentiles::of(ended),
        });
    let mut ended: Vec<_> = ended.collect();
    ended.sort_by_key(|end| std::cmp::Reverse(end.messages));
    Timetable {
        messages,
        attempts: attempts.collect(),
        ended,
        unended,
        busiest_second: busiest(&times),
        broken,
        evaluation,
        times,
        waits,
    }
}

/// The busiest second; the earliest if there are several.
fn busiest(times: &[Vec<u64>]) -> Option<Busiest> {
    let mut seconds: BTreeMap<u64, u32> = BTreeMap::new();
    for at in times.iter().flatten() {
        *seconds.entry(at / 1_000).or_default() += 1;
    }
    let most = seconds
        .into_iter()
        .max_by_key(|(second, retries)| (*retries, std::cmp::Reverse(*second)));
    most.map(|(after_seconds, retries)| Busiest {
        after_seconds,
        retries,
    })
}

#[cfg(test)]
#[path = "timetable_tests.rs"]
mod tests;
