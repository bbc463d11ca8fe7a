//! What an outage of something behind the worker costs a queue, without and with a breaker.
//!
//! The model is a queue, its host and its worker in virtual time. The policy itself makes every decision, in its sandbox, and the breaker is that of a host.

mod model;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::evaluator::{Evaluation, Evaluator, instance_kind};
use crate::threads;
use backstop_core::breaker::BreakerSettings;
use backstop_core::decision::{Bounds, Decision, LONGEST_DELAY, Reach, decide};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};
use backstop_core::rate::Rate;
use backstop_engine::{Payload, Policy};

pub use model::Counts;
use model::{Failed, Load};

/// When the simulation begins: 2026-01-01, so that a policy that depends on the date sees the same one in every simulation.
const START: Timestamp = Timestamp(1_767_225_600_000);

/// How long everything succeeds before the outage.
pub const BEFORE: Milliseconds = Milliseconds(60_000);

/// The most messages that come before the outage ends.
pub const MOST_MESSAGES: u64 = 1_000_000;

/// A run ends after so many requests to the worker, or so long after the outage, even if messages are left.
pub const MOST_REQUESTS: u64 = 5_000_000;
/// See [`MOST_REQUESTS`].
pub const LONGEST: Milliseconds = LONGEST_DELAY;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How long the outage lasts.
    pub outage: Milliseconds,
    /// How many messages come.
    pub rate: Rate,
    /// How many the host has in hand at once.
    pub max_in_flight: NonZeroU32,
    /// The duration of each attempt.
    pub attempt_takes: Milliseconds,
    /// The seed of the ids, and thus of the random numbers, of the messages and of the breaker.
    pub seed: u64,
    /// The error of every attempt during the outage.
    pub error: Error,
    /// The queue of the messages.
    pub source: String,
    /// The attributes of each message.
    pub attributes: Vec<(String, String)>,
    /// The queue limits.
    pub bounds: Bounds,
}

/// Why a plan can't be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There would be too many messages.
    #[error(
        "{messages} messages would come before the outage ends, more than {MOST_MESSAGES}: simulate a lower rate or a shorter outage"
    )]
    TooManyMessages {
        /// How many.
        messages: u64,
    },
    /// The worker could not keep up without an outage.
    #[error(
        "{rate} of {takes} each need at least {needed} in flight, and {max_in_flight} are allowed: the messages would pile up without an outage"
    )]
    TooSlow {
        /// How many messages come.
        rate: Rate,
        /// How long each takes.
        takes: Milliseconds,
        /// How many would have to be in flight.
        needed: u128,
        /// How many may be.
        max_in_flight: NonZeroU32,
    },
}

/// The same outage without and with a breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// Without a breaker.
    pub without: Run,
    /// With a breaker of the whole queue, with its default numbers.
    pub with: Run,
    /// The kind of instance in which the policy was evaluated.
    pub evaluation: Evaluation,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Run {
    /// What the model counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// How the policy broke, with the number of decisions that the fallback made instead.
    pub broken: BTreeMap<String, u64>,
}

impl Plan {
    /// The number of messages that come before the outage ends.
    pub fn messages(&self) -> u64 {
        self.load().messages()
    }

    fn load(&self) -> Load {
        let begins = u64::from(BEFORE.0);
        Load {
            interval: self.rate.interval().max(Duration::from_nanos(1)),
            most: self.max_in_flight.get(),
            takes: self.attempt_takes.0.max(1).into(),
            outage: begins..begins + u64::from(self.outage.0),
            retry_after: self.error.retry_after.map(Milliseconds::as_duration),
        }
    }

    /// Checks that it ends in a reasonable time, and that there is something to see.
    fn check(&self, load: &Load) -> Result<(), PlanError> {
        let messages = load.messages();
        if messages > MOST_MESSAGES {
            return Err(PlanError::TooManyMessages { messages });
        }
        let takes = u128::from(load.takes) * 1_000_000;
        // One more than the load needs on average, or a backlog would never be worked off.
        let needed = takes / load.interval.as_nanos() + 1;
        if needed > u128::from(load.most) {
            return Err(PlanError::TooSlow {
                rate: self.rate,
                takes: self.attempt_takes,
                needed,
                max_in_flight: self.max_in_flight,
            });
        }
        Ok(())
    }

    fn failure(&self, failed: &Failed) -> Failure {
        let message_id = format!("simulated-{}-{}", self.seed, failed.number);
        Failure {
            random: random(&message_id, failed.attempt),
            message_id,
            source: self.source.clone(),
            attempt: failed.attempt,
            age: Milliseconds(u32::try_from(failed.at - failed.sent).unwrap_or(u32::MAX)),
            failed_at: Timestamp(START.0 + failed.at),
            previous_delay: failed.previous_delay,
            error: self.error.clone(),
            attributes: self.attributes.clone(),
        }
    }

    /// Decides as a host does: the policy or, if it breaks, the fallback, within the queue limits.
    fn decide(
        &self,
        failed: &Failed,
        evaluator: &mut Evaluator<'_>,
        broken: &mut BTreeMap<String, u64>,
    ) -> Decision {
        let failure = self.failure(failed);
        let answer = evaluator.evaluate(&failure).map_err(|error| {
            *broken.entry(error.to_string()).or_default() += 1;
            error.cause()
        });
        let reach = Reach::visibility(LONGEST_DELAY, failure.age);
        decide(&failure, answer, &self.bounds, reach)
    }
}

/// Simulates the outage without and with a breaker, on up to two threads. `done` is called after each. The same plan gives the same result, on any machine.
pub fn simulate(
    policy: &Policy,
    payload: &Arc<Payload>,
    plan: &Plan,
    threads: usize,
    done: impl Fn() + Sync,
) -> Result<Comparison, PlanError> {
    let load = plan.load();
    plan.check(&load)?;
    let example = plan.failure(&Failed {
        number: 0,
        attempt: NonZeroU32::MIN,
        sent: 0,
        at: load.takes,
        previous_delay: None,
    });
    let evaluation = instance_kind(policy, payload, &example);
    let settings = BreakerSettings::default().most(load.most);
    let run = |number| {
        let mut evaluator = Evaluator::new(policy, payload, evaluation);
        let mut broken = BTreeMap::new();
        let breaker = (number == 1).then_some(settings);
        let counts = model::run(&load, breaker, plan.seed, |failed| {
            plan.decide(failed, &mut evaluator, &mut broken)
        });
        Run { counts, broken }
    };
    let mut runs = threads::spread(2, threads.min(2), run, done).into_iter();
    Ok(Comparison {
        without: runs.next().unwrap_or_default(),
        with: runs.next().unwrap_or_default(),
        evaluation,
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
