//! The Lambda retry handler in virtual time: real handlers with the SDK's own clients, against models of SQS, of Lambda and of an event source mapping, and a checker that sees all of it from outside.

mod aws;
mod checker;
mod history;
mod plan;
mod planted;
mod run;
mod world;

use checker::check;
use plan::Plan;
use planted::Planted;
use run::run;

use crate::policies::Policies;
use crate::seeds::{Found, each_planted_is_found, try_seeds};
use crate::shrink::smallest;

/// How many seeds each run of the tests tries.
const SEEDS: std::ops::Range<u64> = 0..100;

fn wrong(policies: &Policies, plan: &Plan, planted: Option<Planted>) -> Vec<String> {
    check(plan, &run(policies, plan.clone(), planted))
}

/// The smallest plan that shows what is wrong, with the life of the first event that it concerns.
fn report(policies: &Policies, seed: u64) -> String {
    let fails = |plan: &Plan| !wrong(policies, plan, None).is_empty();
    let plan = smallest(Plan::of(seed), Plan::smaller, fails);
    let history = run(policies, plan.clone(), None);
    let wrong = check(&plan, &history);
    let number = wrong[0].split("event ").nth(1);
    let number = number.and_then(|it| it.split([' ', ',']).next()?.parse().ok());
    let life = number.map_or_else(String::new, |number| history.of(number));
    format!("{}\n{plan:#?}\n{life}", wrong.join("\n"))
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let policies = Policies::default();
    for seed in 0..8 {
        let first = run(&policies, Plan::of(seed), None);
        let again = run(&policies, Plan::of(seed), None);
        let mut both = first.events.iter().zip(&again.events);
        let differs = both.find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert!(first == again, "seed {seed}");
    }
}

#[test]
fn no_seed_breaks_what_must_hold() {
    let policies = Policies::default();
    let tried = |seed| {
        let plan = Plan::of(seed);
        let history = run(&policies, plan.clone(), None);
        Found {
            events: history.events.len(),
            wrong: check(&plan, &history),
        }
    };
    try_seeds(SEEDS, tried, |seed| report(&policies, seed));
}

#[test]
fn each_fault_that_is_planted_is_found() {
    let policies = Policies::default();
    each_planted_is_found(&planted::ALL, |seed, planted| {
        wrong(&policies, &Plan::of(seed), Some(planted))
    });
}
