//! When the retries of messages come that always fail: each message walked from its first failure to its end.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::Serialize;

use super::evaluator::{Evaluation, Evaluator, instance_kind};
use super::spread::Percentiles;
use crate::threads;
use backstop::policy::{Payload, Policy};
use backstop_core::decision::{Action, Bounds, LONGEST_DELAY, decide};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};

/// When the first message is sent: 2026-01-01, so that a policy that looks at the date sees the same one in every simulation.
const START: Timestamp = Timestamp(1_767_225_600_000);

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many messages, all sent at the same time.
    pub messages: u32,
    /// What their ids are made of, and so their random numbers.
    pub seed: u64,
    /// How every attempt fails.
    pub error: Error,
    /// The queue or the function that they belong to.
    pub source: String,
    /// The attributes of each.
    pub attributes: Vec<(String, String)>,
    /// What the queue holds the policy to.
    pub bounds: Bounds,
    /// How long an attempt takes before it fails.
    pub attempt_takes: Milliseconds,
    /// No message is looked at beyond this attempt.
    pub horizon: NonZeroU32,
}

/// The retries of all messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timetable {
    /// How many messages there were.
    pub messages: u32,
    /// Each attempt from the second.
    pub attempts: Vec<Row>,
    /// What became of the messages, the most frequent first.
    pub ended: Vec<End>,
    /// How many were still tried again when they reached the plan's horizon.
    pub unended: u32,
    /// The second in which the most retries come.
    pub busiest_second: Option<Busiest>,
    /// How the policy broke, and how many decisions the fallback made for it.
    pub broken: BTreeMap<String, u32>,
    /// In what kind of instance the policy was asked.
    pub asked: Evaluation,
    /// When every retry comes, in milliseconds from its message's first failure, by attempt.
    #[serde(skip)]
    pub times: Vec<Vec<u64>>,
}

/// One attempt over all messages that get to it. Spans in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// Which: the first retry is attempt 2.
    pub attempt: u32,
    /// How many messages get to it.
    pub messages: usize,
    /// The delay before it.
    pub delay: Percentiles,
    /// From the first failure to its start.
    pub since_first_failure: Percentiles,
}

/// Messages that came to the same end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct End {
    /// `dead-letter` or `discard`.
    pub verdict: &'static str,
    /// Why.
    pub reason: String,
    /// How many.
    pub messages: usize,
    /// After how many attempts.
    pub attempts: Percentiles,
    /// From the first failure to the end, in milliseconds.
    pub since_first_failure: Percentiles,
}

/// The second in which a service sees the most retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Busiest {
    /// When it begins, in whole seconds from the first failure.
    pub after_seconds: u64,
    /// How many retries it has.
    pub retries: u32,
}

/// One message from its first failure on.
#[derive(Debug, Default)]
struct Walk {
    /// Before each retry: the delay, and the time from the first failure to its start.
    retries: Vec<(u64, u64)>,
    end: Option<(&'static str, String, u64)>,
    broken: Vec<String>,
}

/// Walks the messages of `plan`, by so many threads. `done` is called after each message. The same plan gives the same timetable, whatever the threads and the machine.
pub fn simulate(
    policy: &Policy,
    payload: &Arc<Payload>,
    plan: &Plan,
    threads: usize,
    done: impl Fn() + Sync,
) -> Timetable {
    let example = plan.failure(String::new(), NonZeroU32::MIN, 0, None);
    let asked = instance_kind(policy, payload, &example);
    let walk = |number| plan.walk(number, &mut Evaluator::new(policy, payload, asked));
    let count = usize::try_from(plan.messages).unwrap_or(usize::MAX);
    let walks = threads::spread(count, threads, walk, done);
    summed_up(plan.messages, asked, walks)
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

    /// The decision is the host's whole one: the policy's, or the fallback's for a broken policy, within the bounds of the queue.
    fn walk(&self, number: usize, asker: &mut Evaluator<'_>) -> Walk {
        let id = format!("simulated-{}-{number}", self.seed);
        let mut walk = Walk::default();
        let (mut now, mut previous_delay) = (0, None);
        for attempt in (1..self.horizon.get()).filter_map(NonZeroU32::new) {
            let failure = self.failure(id.clone(), attempt, now, previous_delay);
            let answer = asker.evaluate(&failure).map_err(|error| {
                walk.broken.push(error.to_string());
                error.cause()
            });
            let decision = decide(&failure, answer, &self.bounds, LONGEST_DELAY);
            let verdict = decision.action.verdict().as_str();
            let reason = match decision.action {
                Action::Retry { delay } => {
                    let starts = now + u64::from(delay.0);
                    walk.retries.push((delay.0.into(), starts));
                    now = starts + u64::from(self.attempt_takes.0);
                    previous_delay = Some(delay);
                    continue;
                }
                Action::DeadLetter { reason } | Action::Discard { reason } => reason,
            };
            walk.end = Some((verdict, reason, now));
            break;
        }
        walk
    }
}

/// What the messages of one end have: their attempts, and when it came.
type Endings = (Vec<u64>, Vec<u64>);

fn summed_up(messages: u32, asked: Evaluation, walks: Vec<Walk>) -> Timetable {
    let longest = walks.iter().map(|walk| walk.retries.len()).max();
    let mut delays = vec![Vec::new(); longest.unwrap_or_default()];
    let mut times = delays.clone();
    let mut endings: BTreeMap<(&'static str, String), Endings> = BTreeMap::new();
    let mut broken = BTreeMap::new();
    let mut unended = 0;
    for walk in walks {
        let attempts = walk.retries.len() as u64 + 1;
        let columns = delays.iter_mut().zip(&mut times);
        for ((delay, at), (delays, times)) in walk.retries.into_iter().zip(columns) {
            delays.push(delay);
            times.push(at);
        }
        for cause in walk.broken {
            *broken.entry(cause).or_default() += 1;
        }
        match walk.end {
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
        asked,
        times,
    }
}

/// The first of the busiest, if several are.
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
