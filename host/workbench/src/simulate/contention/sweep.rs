//! Runs the model many times for each contender and each number of clients, and summarises the results.

use std::num::NonZeroU32;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::contender::Contender;
use super::model::{self, Lost, Network, Outcome};
use crate::simulate::evaluator::Evaluator;
use crate::simulate::spread::Spread;
use crate::threads;
use backstop_core::decision::Action;
use backstop_core::failure::{Failure, Milliseconds, Timestamp};
use backstop_core::fallback;

/// What to run.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The numbers of clients.
    pub clients: Vec<u32>,
    /// The number of runs for each contender and each number of clients.
    pub runs: u32,
    /// The seed from which the seed of each run is derived.
    pub seed: u64,
    /// The latency of the messages.
    pub network: Network,
}

/// All runs of one contender with one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// The contender's label.
    pub policy: String,
    /// The number of clients.
    pub clients: u32,
    /// The time from the start to the last result, in milliseconds.
    pub time: Spread,
    /// The number of writes.
    pub calls: Spread,
    /// The mean number of clients per run that gave up.
    pub gave_up: f64,
    /// The number of decisions that the fallback made because the policy broke, over all runs.
    pub broken: u64,
}

/// One run, and the number of decisions that the fallback made in it.
type Run = (Outcome, u64);

impl Sweep {
    /// The total number of runs for this many contenders.
    pub fn runs_of(&self, contenders: usize) -> usize {
        contenders * self.clients.len() * self.runs_each()
    }

    fn runs_each(&self) -> usize {
        usize::try_from(self.runs).unwrap_or(usize::MAX)
    }

    /// Runs everything on this many threads. `done` is called after each run. A contender's results depend neither on the number of threads nor on the other contenders.
    pub fn run(
        &self,
        contenders: &[Contender],
        threads: usize,
        done: impl Fn() + Sync,
    ) -> Vec<Cell> {
        let cells: Vec<_> = contenders
            .iter()
            .flat_map(|contender| {
                self.clients
                    .iter()
                    .map(move |clients| (contender, *clients))
            })
            .collect();
        // The runs with the most clients take longest. They come first, so that no single thread runs one at the end.
        let mut order: Vec<_> = (0..cells.len()).collect();
        order.sort_by_key(|cell| cells.get(*cell).map(|(_, clients)| u32::MAX - clients));
        let runs_each = self.runs_each();
        let work = |number: usize| {
            let cell = order.get(number / runs_each).copied().unwrap_or_default();
            let run = u32::try_from(number % runs_each).unwrap_or(u32::MAX);
            let done = cells
                .get(cell)
                .map(|(contender, clients)| self.run_once(contender, *clients, run));
            (cell, done.unwrap_or_default())
        };
        let mut outcomes = vec![Vec::with_capacity(runs_each); cells.len()];
        for (cell, run) in threads::spread(self.runs_of(contenders.len()), threads, work, done) {
            if let Some(runs) = outcomes.get_mut(cell) {
                runs.push(run);
            }
        }
        let summarise = |((contender, clients), runs): ((&Contender, u32), Vec<Run>)| {
            Cell::of(contender.label.clone(), clients, &runs)
        };
        cells.into_iter().zip(outcomes).map(summarise).collect()
    }

    fn run_once(&self, contender: &Contender, clients: u32, run: u32) -> Run {
        let mut evaluator =
            Evaluator::new(&contender.policy, &contender.payload, contender.evaluation);
        let mut broken = 0;
        let seed = self.seed_of(&contender.label, clients, run);
        let outcome = model::run(clients, self.network, seed, |lost| {
            let failure = lost_failure(&contender.example, lost);
            let answer = evaluator.evaluate(&failure).unwrap_or_else(|_| {
                broken += 1;
                fallback::decide(&failure)
            });
            match answer.action {
                Action::Retry { delay } => Some(delay.0),
                Action::DeadLetter { .. } | Action::Discard { .. } => None,
            }
        });
        (outcome, broken)
    }

    /// The seed of one run. Each run has its own, so that its result does not depend on earlier runs.
    fn seed_of(&self, label: &str, clients: u32, run: u32) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.seed.to_be_bytes())
            .chain_update(clients.to_be_bytes())
            .chain_update(run.to_be_bytes())
            .chain_update(label)
            .finalize()
            .into()
    }
}

/// The failure that a lost write is for a policy. Times are those of the model, in whole milliseconds.
fn lost_failure(example: &Failure, lost: &Lost) -> Failure {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "milliseconds from 0; a float saturates when it is cast"
    )]
    let age = lost.at as u32;
    Failure {
        message_id: format!("client-{}", lost.client),
        attempt: NonZeroU32::MIN.saturating_add(lost.attempt - 1),
        age: Milliseconds(age),
        failed_at: Timestamp(example.failed_at.0 + u64::from(age)),
        previous_delay: lost.previous_delay.map(Milliseconds),
        random: lost.random,
        ..example.clone()
    }
}

impl Cell {
    fn of(policy: String, clients: u32, runs: &[Run]) -> Self {
        let spread = |value: fn(&Outcome) -> f64| {
            Spread::of(runs.iter().map(|(outcome, _)| value(outcome)).collect())
        };
        Self {
            policy,
            clients,
            time: spread(|outcome| outcome.time),
            calls: spread(|outcome| outcome.calls.into()),
            gave_up: spread(|outcome| outcome.gave_up.into()).mean,
            broken: runs.iter().map(|(_, broken)| broken).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::simulate::Evaluation;
    use crate::simulate::contention::Baseline;
    use backstop_core::examples::ordinary_failure;
    use backstop_core::settings::Settings;
    use backstop_engine::{Limits, Sandbox};

    fn contenders(sandbox: &Sandbox) -> Vec<Contender> {
        let jitter =
            backstop_versions::load(sandbox, "full-jitter", &[("base", "10ms"), ("cap", "2s")]);
        let ending =
            backstop_versions::load(sandbox, "linear", &[("base", "1ms"), ("max-attempts", "2")]);
        [
            (
                "none",
                Baseline::None.load(sandbox, &Settings::new()).unwrap(),
            ),
            ("full-jitter", Arc::unwrap_or_clone(jitter.unwrap())),
            ("ending", Arc::unwrap_or_clone(ending.unwrap())),
        ]
        .into_iter()
        .map(|(label, policy)| {
            Contender::new(label.to_owned(), policy, Arc::default(), ordinary_failure())
        })
        .collect()
    }

    #[test]
    fn a_result_depends_on_its_seed_and_neither_on_threads_nor_on_other_contenders() {
        let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
        let mut contenders = contenders(&sandbox);
        assert!(
            contenders
                .iter()
                .all(|it| it.evaluation == Evaluation::Live)
        );
        let sweep = |seed| Sweep {
            clients: vec![1, 5, 20],
            runs: 4,
            seed,
            network: Network::default(),
        };
        let all = sweep(7).run(&contenders, 1, || ());
        assert_eq!(all.len(), 9);
        assert_eq!(sweep(7).run(&contenders, 3, || ()), all);
        assert_ne!(sweep(8).run(&contenders, 1, || ()), all);
        contenders.remove(0);
        assert_eq!(
            Some(sweep(7).run(&contenders, 2, || ()).as_slice()),
            all.get(3..)
        );
    }

    #[test]
    fn reused_and_fresh_instances_give_the_same_results() {
        let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
        let mut contenders = contenders(&sandbox);
        let sweep = Sweep {
            clients: vec![15],
            runs: 2,
            seed: 0,
            network: Network::default(),
        };
        let live = sweep.run(&contenders, 1, || ());
        for contender in &mut contenders {
            contender.evaluation = Evaluation::Fresh;
        }
        assert_eq!(sweep.run(&contenders, 1, || ()), live);
        let ending = live.last().unwrap();
        assert!(
            ending.gave_up > 0.0 && ending.calls.p95 <= 30.0,
            "{ending:?}"
        );
        assert_eq!(ending.broken, 0);
    }
}
