//! Runs a scenario: evaluates the policy as often as the scenario needs.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Expected, Given, Plan, Scenario, Step};
use crate::outcome::{Kind, Outcome, Row, Tried};
use backstop_core::clock;
use backstop_core::decision::{Action, Verdict};
use backstop_core::failure::{Failure, Milliseconds, random};
use backstop_core::settings::Settings;
use backstop_engine::{Evaluation, EvaluationError, Payload, Policy};

/// A policy that never gives up is evaluated up to this attempt.
const MAX_ATTEMPTS: u32 = 10_000;

/// Runs a scenario with its own settings merged over these. `policy` returns the policy with the given settings; `seed` fixes the numbers that `over` draws.
pub fn run(
    policy: impl Fn(&Settings) -> Policy,
    settings: &Settings,
    scenario: &Scenario,
    seed: u64,
) -> Outcome {
    let started = clock::instant();
    let evaluator = Evaluator {
        policy: policy(&settings.merge(&scenario.settings)),
        payload: Arc::new(Payload::new(scenario.payload.as_str())),
    };
    let given = &scenario.given;
    let (rows, tried) = match &scenario.plan {
        Plan::Once(expected) => evaluator.once(given.failure(), expected),
        Plan::Over { numbers, expected } => evaluator.over(given, *numbers, expected, seed),
        Plan::Sequence { took, steps } => evaluator.sequence(given, *took, steps),
        Plan::GivesUp {
            took,
            attempts,
            within,
            expected,
        } => {
            let limits = (*attempts, *within);
            evaluator.gives_up(given, *took, limits, expected)
        }
        Plan::Refused(part) => evaluator.refused(given.failure(), part),
    };
    let mut outcome = Outcome::new(Kind::Scenario, &scenario.name).with_rows(rows);
    outcome.line = Some(scenario.line);
    outcome.tried = tried.filter(|_| !outcome.passed);
    outcome.took = started.elapsed();
    outcome
}

/// The comparisons, and the decision of the first one that does not hold.
type Compared = (Vec<Row>, Option<Tried>);

struct Evaluator {
    policy: Policy,
    payload: Arc<Payload>,
}

impl Evaluator {
    fn evaluate(&self, failure: &Failure) -> Evaluation {
        self.policy.evaluate(failure, &self.payload)
    }

    fn once(&self, failure: Failure, expected: &Expected) -> Compared {
        let evaluation = self.evaluate(&failure);
        let mut rows = expected.compare(&evaluation);
        if rows.is_empty() {
            rows.push(Row::new("answer", "an answer", answer(&evaluation), true));
        }
        (rows, Some(tried(failure, evaluation)))
    }

    /// One row for each field. The first mismatch represents the others.
    fn over(&self, given: &Given, numbers: NonZeroU32, expected: &Expected, seed: u64) -> Compared {
        let mut rows: Vec<(Row, u32)> = Vec::new();
        let mut failed = None;
        let (mut sum, mut retries) = (0_u64, 0_u64);
        for number in draws(seed, numbers) {
            let failure = given.failure_with(number);
            let evaluation = self.evaluate(&failure);
            if let Some(delay) = delay(&evaluation) {
                sum += u64::from(delay.0);
                retries += 1;
            }
            let compared = expected.compare(&evaluation);
            if failed.is_none() && compared.iter().any(|row| !row.holds) {
                failed = Some(tried(failure, evaluation));
            }
            for mut row in compared {
                let misses = u32::from(!row.holds);
                if !row.holds {
                    row.got = format!("{} with random {number}", row.got);
                }
                match rows.iter_mut().find(|(known, _)| known.what == row.what) {
                    None => rows.push((row, misses)),
                    Some((known, missed)) => {
                        *missed += misses;
                        if known.holds && !row.holds {
                            *known = row;
                        }
                    }
                }
            }
        }
        let mut rows: Vec<Row> = rows
            .into_iter()
            .map(|(mut row, misses)| {
                if misses > 0 {
                    row.got = format!("{}; so {misses} of {numbers}", row.got);
                }
                row
            })
            .collect();
        if let Some((low, high)) = expected.delay.and_then(|delay| delay.mean()) {
            // No answer has a delay: the row of the delay reports that already.
            let mean = sum.checked_div(retries).unwrap_or_default();
            let mean = Milliseconds(u32::try_from(mean).unwrap_or(u32::MAX));
            let holds = retries > 0 && (low..=high).contains(&mean);
            let got = format!("{mean} over {retries}");
            rows.push(Row::new("mean", format!("{low} to {high}"), got, holds));
        }
        (rows, failed)
    }

    fn sequence(&self, given: &Given, took: Milliseconds, steps: &[Step]) -> Compared {
        let (mut rows, mut failed) = (Vec::new(), None);
        let mut given = given.clone();
        for (done, step) in (1..).zip(steps) {
            let left = steps.len() - done;
            let failure = given.with(&step.failure).failure();
            let evaluation = self.evaluate(&failure);
            let compared = step.expected.compare(&evaluation);
            let holds = compared.iter().all(|row| row.holds);
            let name = format!("attempt {}", failure.attempt);
            rows.extend(compared.into_iter().map(|row| Row {
                what: format!("{name} {}", row.what),
                ..row
            }));
            let next = delay(&evaluation).map(|delay| given.next(delay, took));
            let ended = answer(&evaluation);
            if !holds || (next.is_none() && left > 0) {
                failed.get_or_insert_with(|| tried(failure, evaluation));
            }
            match next {
                Some(next) => given = next,
                None if left > 0 => {
                    let expected = format!("{left} more after it");
                    let got = format!("the last: {ended}");
                    rows.push(Row::new(name, expected, got, false));
                    break;
                }
                None => break,
            }
        }
        (rows, failed)
    }

    fn gives_up(
        &self,
        given: &Given,
        took: Milliseconds,
        (attempts, within): (Option<NonZeroU32>, Option<Milliseconds>),
        expected: &Expected,
    ) -> Compared {
        let mut given = given.clone();
        let most = attempts.map_or(MAX_ATTEMPTS, NonZeroU32::get);
        loop {
            let failure = given.failure();
            let evaluation = self.evaluate(&failure);
            let is_late = within.is_some_and(|within| failure.age > within);
            if let Some(delay) = delay(&evaluation)
                && failure.attempt.get() < most
                && !is_late
            {
                given = given.next(delay, took);
                continue;
            }
            let mut rows = Vec::new();
            let gives_up = match &evaluation.answer {
                Ok(answer) => answer.action.verdict() != Verdict::Retry,
                Err(_) => true,
            };
            let at = failure.attempt;
            if let Some(attempts) = attempts {
                let got = if gives_up {
                    at.to_string()
                } else {
                    format!("more: {} after {at}", answer(&evaluation))
                };
                let holds = gives_up && at == attempts;
                rows.push(Row::new("attempts", attempts.to_string(), got, holds));
            }
            if let Some(within) = within {
                let got = if gives_up {
                    failure.age.to_string()
                } else {
                    format!("{} and on: {}", failure.age, answer(&evaluation))
                };
                let holds = gives_up && !is_late;
                rows.push(Row::new("within", within.to_string(), got, holds));
            }
            if gives_up {
                rows.extend(expected.compare(&evaluation));
            }
            return (rows, Some(tried(failure, evaluation)));
        }
    }

    fn refused(&self, failure: Failure, part: &str) -> Compared {
        let evaluation = self.evaluate(&failure);
        let (got, holds) = match &evaluation.answer {
            Err(broken @ (EvaluationError::Settings(_) | EvaluationError::NoSettings(_))) => {
                let why = broken.to_string();
                let holds = why.contains(part);
                (why, holds)
            }
            Err(broken) => (format!("the policy {broken}"), false),
            Ok(_) => ("the settings are accepted".to_owned(), false),
        };
        let expected = format!("… {part} …");
        let rows = vec![Row::new("refused", expected, got, holds)];
        (rows, Some(tried(failure, evaluation)))
    }
}

/// One number from each of `numbers` equal slices of [0, 1), so that even few numbers have a mean close to 0.5. The first is 0, and the last is the largest number below 1.
fn draws(seed: u64, numbers: NonZeroU32) -> impl Iterator<Item = f64> {
    let of = f64::from(numbers.get());
    let seed = format!("seed {seed}");
    (1..=numbers.get()).map(move |slice| {
        let within = NonZeroU32::new(slice).map_or(0.0, |slice| random(&seed, slice));
        match slice {
            1 => 0.0,
            slice if slice == numbers.get() => 1.0 - f64::EPSILON / 2.0,
            slice => (f64::from(slice - 1) + within) / of,
        }
    })
}

/// The delay, if the answer is to retry.
fn delay(evaluation: &Evaluation) -> Option<Milliseconds> {
    match evaluation.answer.as_ref().ok()?.action {
        Action::Retry { delay } => Some(delay),
        Action::DeadLetter { .. } | Action::Discard { .. } => None,
    }
}

/// The answer, for people.
pub fn answer(evaluation: &Evaluation) -> String {
    match &evaluation.answer {
        Ok(answer) => answer.action.to_string(),
        Err(broken) => format!("the policy {broken}"),
    }
}

fn tried(failure: Failure, evaluation: Evaluation) -> Tried {
    Tried {
        failure,
        log: evaluation.log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawn_numbers_are_one_of_each_slice_with_both_edges() {
        let numbers = NonZeroU32::new(1_000).unwrap();
        let drawn: Vec<f64> = draws(7, numbers).collect();
        assert_eq!(drawn.first(), Some(&0.0));
        assert_eq!(drawn.last(), Some(&(1.0 - f64::EPSILON / 2.0)));
        for (slice, number) in (0_u32..).zip(&drawn) {
            let low = f64::from(slice) / 1_000.0;
            assert!(
                (low..low + 0.001_000_1).contains(number),
                "{slice}: {number}"
            );
        }
        let mean = drawn.iter().sum::<f64>() / 1_000.0;
        assert!((mean - 0.5).abs() < 0.000_1, "{mean}");
        assert_eq!(draws(7, numbers).collect::<Vec<_>>(), drawn);
        assert_ne!(draws(8, numbers).collect::<Vec<_>>(), drawn);
    }
}
