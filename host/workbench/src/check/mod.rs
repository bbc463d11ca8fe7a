//! The checks that every policy must pass: a host's validation, the same answer to the same failure, and a valid answer within limits to every failure.
//!
//! `generate` generates failures, with what `dictionary` finds in the policy's file, `fuzz` evaluates the policy with them, `shrink` minimises a failure that the policy does not handle, `paste` writes it as a scenario, and `warnings` finds decisions that are rarely intended.

mod dictionary;
mod fuzz;
mod generate;
mod paste;
mod plan;
mod shrink;
mod warnings;

use std::sync::Arc;

use super::subject::Subject;
use backstop_core::clock;
use backstop_core::failure::{Failure, Milliseconds};
use backstop_engine::{EvaluationError, Limits, Payload, Policy, Sandbox, probe};
use backstop_versions::outcome::{Found, Kind, Outcome, Row, Tried};
use backstop_versions::scenario::{Scenario, answer, plain_failure};
use dictionary::Dictionary;
use fuzz::{Fault, Findings};
use generate::Vocabulary;

pub use plan::Plan;

/// The number of failures that are evaluated more than once.
const REPEATED: u32 = 32;

/// A policy that takes longer to compile is not compiled for a second engine.
const MAX_COMPILE_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// The endless sequence of generated failures, each with the body of its message: ordinary, extreme and odd ones. The same seed and scenarios give the same sequence.
pub fn failures(
    seed: u64,
    scenarios: &[Scenario],
) -> impl Iterator<Item = (Failure, Arc<Payload>)> + use<> {
    generate::cases(seed, &Vocabulary::of(scenarios)).map(|case| {
        let payload = case.payload();
        (case.failure, payload)
    })
}

/// A check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Accepted,
    Repeatable,
    Fuzzed(Fault),
}

impl Check {
    const ALL: [Self; 7] = [
        Self::Accepted,
        Self::Repeatable,
        Self::Fuzzed(Fault::Order),
        Self::Fuzzed(Fault::Trap),
        Self::Fuzzed(Fault::Limit),
        Self::Fuzzed(Fault::InvalidAnswer),
        Self::Fuzzed(Fault::Delay),
    ];

    fn name(self, longest: Milliseconds) -> String {
        match self {
            Self::Accepted => "a host accepts it".to_owned(),
            Self::Repeatable => "the same failure gets the same answer".to_owned(),
            Self::Fuzzed(Fault::Order) => "the order of attributes changes nothing".to_owned(),
            Self::Fuzzed(Fault::Trap) => "no failure makes it trap".to_owned(),
            Self::Fuzzed(Fault::Limit) => "it ends within its limits".to_owned(),
            Self::Fuzzed(Fault::InvalidAnswer) => "every answer is valid".to_owned(),
            Self::Fuzzed(Fault::Delay) => format!("no delay is longer than {longest}"),
        }
    }
}

/// Runs the checks whose names are `wanted`, in a fixed order. `progress` is called with the number of generated failures so far and in total.
pub fn run(
    subject: &Subject,
    plan: &Plan<'_>,
    wanted: &dyn Fn(&str) -> bool,
    progress: &mut dyn FnMut(u32, u32),
) -> Vec<Outcome> {
    let longest = plan.longest_delay;
    let wanted: Vec<_> = Check::ALL
        .into_iter()
        .map(|check| (check, check.name(longest)))
        .filter(|(_, name)| wanted(name))
        .collect();
    let policy = subject.policy(plan.settings);
    if !wanted.is_empty() && rejects_settings(&policy) {
        // Every check would fail for the same reason.
        let outcome = Outcome::new(Kind::Check, Check::Accepted.name(longest));
        return vec![accepted(outcome, &policy)];
    }
    let words = Vocabulary::of(plan.scenarios).with(Dictionary::of(subject.file()));
    let mut findings: Option<Findings> = None;
    let mut outcomes = Vec::new();
    for (check, name) in wanted {
        let started = clock::instant();
        let outcome = Outcome::new(Kind::Check, name);
        let mut outcome = match check {
            Check::Accepted => accepted(outcome, &policy),
            Check::Repeatable => repeatable(outcome, subject, plan, &words, &policy),
            Check::Fuzzed(fault) => {
                let findings =
                    findings.get_or_insert_with(|| fuzz::run(&policy, plan, &words, progress));
                fuzzed(outcome, fault, findings, plan)
            }
        };
        if check == Check::Fuzzed(Fault::InvalidAnswer) && outcome.passed {
            outcome.warnings.extend(warnings::warnings(&policy));
        }
        outcome.took = started.elapsed();
        outcomes.push(outcome);
    }
    // The fuzzer finds this with any failure; it is reported with the check that evaluates twice.
    let repeatable = Check::Repeatable.name(longest);
    if let (
        Some(Findings {
            clock_dependent: Some(number),
            ..
        }),
        Some(check),
    ) = (
        &findings,
        outcomes
            .iter_mut()
            .find(|outcome| outcome.name == repeatable),
    ) {
        check.warnings.push(format!(
            "its answers depend on the clock, which a host stops at 1970: for example, generated failure {number} gets another answer at another time; use `failed-at` and `age` instead"
        ));
    }
    outcomes
}

fn rejects_settings(policy: &Policy) -> bool {
    let evaluation = policy.evaluate(&plain_failure(), &Arc::default());
    matches!(
        evaluation.answer,
        Err(EvaluationError::Settings(_) | EvaluationError::NoSettings(_))
    )
}

fn accepted(mut outcome: Outcome, policy: &Policy) -> Outcome {
    outcome.about = "the probe that runs before every swap".to_owned();
    match probe::run(policy) {
        Ok(()) => outcome,
        Err(error) => {
            let row = Row::new("probe", "accepted", format!("rejected: {error}"), false);
            outcome.with_rows(vec![row])
        }
    }
}

/// Evaluates twice in one engine and once in another, which allocates the memory of instances differently; and twice in one instance, which no host does, to find kept state.
fn repeatable(
    mut outcome: Outcome,
    subject: &Subject,
    plan: &Plan<'_>,
    words: &Vocabulary,
    policy: &Policy,
) -> Outcome {
    let other = if subject.compiling() < MAX_COMPILE_TIME {
        Sandbox::on_demand(Limits::default())
            .ok()
            .and_then(|other| subject.policy_in(&other, plan.settings).ok())
    } else {
        None
    };
    outcome.about = format!(
        "{REPEATED} failures, each evaluated twice{}",
        match other {
            Some(_) => " with a pool of instances and once without",
            None => "",
        }
    );
    let mut keeps_state = false;
    for case in generate::cases(plan.seed, words).take(REPEATED as usize) {
        let payload = case.payload();
        let evaluate = |policy: &Policy| policy.evaluate(&case.failure, &payload);
        let first = evaluate(policy);
        for (way, again) in [
            Some(("again", policy)),
            other.as_ref().map(|it| ("without the pool", it)),
        ]
        .into_iter()
        .flatten()
        .map(|(way, policy)| (way, evaluate(policy)))
        {
            if (&again.answer, &again.log) != (&first.answer, &first.log) {
                let row = Row::new(way, answer(&first), answer(&again), false);
                outcome = outcome.with_rows(vec![row]);
                let (failure, log) = (case.failure.clone(), again.log);
                outcome.tried = Some(Tried { failure, log });
                return outcome;
            }
        }
        keeps_state = keeps_state || answers_change(policy, &case.failure, &payload);
    }
    if keeps_state {
        outcome.warnings.push(
            "it keeps state between answers (a count, a cache, its own random numbers); a host uses a fresh instance for each decision, so the state is lost".to_owned(),
        );
    }
    outcome
}

/// Whether a reused instance gives another answer.
fn answers_change(policy: &Policy, failure: &Failure, payload: &Arc<Payload>) -> bool {
    let mut session = policy.session(payload);
    let first = session.evaluate(failure);
    let second = session.evaluate(failure);
    first.is_ok() && first != second
}

fn fuzzed(mut outcome: Outcome, fault: Fault, findings: &Findings, plan: &Plan<'_>) -> Outcome {
    let cases = findings.cases;
    let limits = Limits::default();
    let fuel = share(findings.fuel as f64 / limits.fuel as f64);
    let memory = share(findings.memory as f64 / limits.memory as f64);
    outcome.about = match (fault, findings.caught(fault)) {
        (Fault::Limit, None) => format!("at most {fuel} of its fuel and {memory} of its memory"),
        _ => format!("{cases} generated failures"),
    };
    let Some(caught) = findings.caught(fault) else {
        let is_near = findings.fuel > limits.fuel / 2 || findings.memory > limits.memory / 2;
        if fault == Fault::Limit && is_near {
            outcome.warnings.push(
                "it uses more than half of a limit: the next version, or a larger payload, may exceed it".to_owned(),
            );
        }
        return outcome;
    };
    let expected = match fault {
        Fault::Trap | Fault::Limit | Fault::InvalidAnswer => "an answer".to_owned(),
        Fault::Delay => format!("at most {}", plan.longest_delay),
        Fault::Order => caught
            .tested
            .before
            .as_ref()
            .map_or_else(String::new, answer),
    };
    let what = match fault {
        Fault::Order => "the reverse order",
        Fault::Trap | Fault::Limit | Fault::InvalidAnswer | Fault::Delay => "answer",
    };
    let (case, evaluation) = (&caught.case, &caught.tested.evaluation);
    let mut outcome = outcome.with_rows(vec![Row::new(what, expected, answer(evaluation), false)]);
    outcome.tried = Some(Tried {
        failure: case.failure.clone(),
        log: evaluation.log.clone(),
    });
    outcome.found = Some(Found {
        case: caught.number,
        seed: plan.seed,
        // A scenario can't express the order.
        scenario: (fault != Fault::Order).then(|| paste::scenario(case, fault, plan)),
    });
    outcome
}

/// A share in percent, rounded up to a tenth.
fn share(part: f64) -> String {
    let tenths = (part * 1_000.0).ceil() / 10.0;
    format!("{tenths} %")
}
