//! Idempotent work in virtual time: real owners with the SDK's own client, against a model of a table of DynamoDB, and a checker that sees all of it from outside.

mod checker;
mod compare;
mod expression;
mod history;
mod known;
mod network;
mod plan;
mod planted;
mod run;
mod table;
mod world;

use checker::check;
use plan::Plan;
use planted::Planted;
use run::run;

use crate::seeds::{Found, each_planted_is_found, try_seeds};
use crate::shrink::smallest;

/// How many seeds each run of the tests tries.
const SEEDS: std::ops::Range<u64> = 0..250;

fn wrong(plan: &Plan, planted: Option<Planted>) -> Vec<String> {
    check(plan, &run(plan.clone(), planted))
}

/// The smallest plan that shows what is wrong, with the life of the first key that it concerns.
fn report(seed: u64) -> String {
    let fails = |plan: &Plan| !wrong(plan, None).is_empty();
    let plan = smallest(Plan::of(seed), Plan::smaller, fails);
    let history = run(plan.clone(), None);
    let wrong = check(&plan, &history);
    let key = wrong[0].split("key ").nth(1);
    let key = key.and_then(|it| it.split([' ', ',']).next()?.parse().ok());
    let life = key.map_or_else(String::new, |key| history.of(key));
    format!("{}\n{plan:#?}\n{life}", wrong.join("\n"))
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        let first = run(Plan::of(seed), None);
        let again = run(Plan::of(seed), None);
        let mut both = first.events.iter().zip(&again.events);
        let differs = both.find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert!(first == again, "seed {seed}");
    }
}

#[test]
fn no_seed_breaks_what_must_hold() {
    let tried = |seed| {
        let plan = Plan::of(seed);
        let history = run(plan.clone(), None);
        Found {
            events: history.events.len(),
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
