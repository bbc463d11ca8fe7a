//! Delivery in virtual time: real deliveries to a queue, a table and a stream with the SDK's own clients, against models of the services, and a checker that sees all of it from outside.

mod checker;
mod plan;
mod planted;
mod run;
mod service;

use checker::check;
use plan::Plan;
use planted::Planted;
use run::run;

use crate::seeds::{Found, each_planted_is_found, try_seeds};
use crate::shrink::smallest;

/// How many seeds each run of the tests tries.
const SEEDS: std::ops::Range<u64> = 0..200;

fn wrong(plan: &Plan, planted: Option<Planted>) -> Vec<String> {
    check(plan, &run(plan.clone(), planted))
}

/// The smallest plan that shows what is wrong, with what was seen.
fn report(seed: u64) -> String {
    let fails = |plan: &Plan| !wrong(plan, None).is_empty();
    let plan = smallest(Plan::of(seed), Plan::smaller, fails);
    let history = run(plan.clone(), None);
    let wrong = check(&plan, &history);
    format!("{}\n{plan:#?}\n{history:#?}", wrong.join("\n"))
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        let first = run(Plan::of(seed), None);
        assert_eq!(first, run(Plan::of(seed), None), "seed {seed}");
    }
}

#[test]
fn no_seed_breaks_what_must_hold() {
    let tried = |seed| {
        let plan = Plan::of(seed);
        let history = run(plan.clone(), None);
        Found {
            events: history.ended.len() + history.seen.requests.len(),
            wrong: check(&plan, &history),
        }
    };
    try_seeds(SEEDS, tried, report);
}

#[test]
fn each_fault_that_is_planted_is_found() {
    each_planted_is_found(&planted::ALL, |seed, planted| {
        wrong(&Plan::of(seed), Some(planted))
    });
}
