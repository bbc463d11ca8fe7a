//! The host in virtual time, against a model of SQS with its faults: messages, failures, kills and operators of a seed, and a checker that sees all of it from outside.
//!
//! The means are tokio's paused clock and the C library's clock and randomness, replaced in this program. turmoil simulates a network, and would need the AWS SDK's client and a server of SQS in it for each request; madsim replaces tokio for everything that is compiled. Here the model stands where the SDK does, behind the trait `Queue`, and half an hour takes a fraction of a second.
//!
//! `SIMULATE=SEED` tries one seed, `SIMULATE=FROM..TO` many: `make simulate`.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that can't go on fails, a simulation reports, and each planted fault concerns a few places"
)]

mod checker;
mod deliver;
mod determinism;
mod history;
mod host;
mod idempotency;
mod lambda;
mod link;
mod model;
mod operators;
mod plan;
mod planted;
mod policies;
mod redrive;
mod run;
mod seeds;
mod shrink;
mod trial;
mod worker;
mod world;

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use backstop_core::clock;

use checker::check;
use determinism::simulated;
use plan::Plan;
use planted::Planted;
use policies::Policies;
use run::run;
use shrink::shrunk;
use trial::Trial;

/// How many seeds each run of the tests tries.
const SEEDS: Range<u64> = 0..330;

/// One seed, or those from one to another.
fn range(seeds: &str) -> Range<u64> {
    let (from, to) = seeds.split_once("..").unwrap_or((seeds, ""));
    let number = |text: &str| text.trim().parse::<u64>();
    let range = match (number(from), to) {
        (Ok(from), "") => Ok(from..from + 1),
        (Ok(from), to) => number(to).map(|to| from..to),
        (Err(error), _) => Err(error),
    };
    range
        .unwrap_or_else(|_| panic!("SIMULATE={seeds}: expected a seed, or FROM..TO such as 0..500"))
}

/// What is wrong with a plan's history.
fn wrong(policies: &Policies, plan: &Plan, planted: Option<Planted>) -> Vec<String> {
    check(plan, &run(policies, plan.clone(), planted)).wrong
}

/// The smallest plan that shows what is wrong, with the life of the first message that it concerns.
fn report(policies: &Policies, plan: Plan) -> String {
    let plan = shrunk(plan, |plan| !wrong(policies, plan, None).is_empty());
    let history = run(policies, plan.clone(), None);
    let wrong = check(&plan, &history).wrong;
    let number = wrong[0].split("essage ").nth(1);
    let number = number.and_then(|it| it.split(' ').next()?.parse().ok());
    let life = history.of(number.unwrap_or(u32::MAX));
    format!("{}\n{plan}\n{life}", wrong.join("\n"))
}

/// Tries seeds. The first one whose history is wrong fails the test, as a smaller plan.
fn try_seeds(policies: &Policies, seeds: &Range<u64>) -> Trial {
    assert!(!seeds.is_empty(), "{seeds:?} has no seed");
    let began = clock::instant();
    let trial = Trial::of(policies, seeds);
    let (events, took, wrong) = (trial.events, began.elapsed(), &trial.wrong);
    println!("seeds {seeds:?}: {events} events in {took:?}, wrong: {wrong:?}");
    if let Some(seed) = wrong.first() {
        panic!("seed {seed}: {}", report(policies, Plan::of(*seed)));
    }
    trial
}

#[test]
fn hash_maps_ids_random_numbers_and_clocks_follow_the_seed() {
    let draw = |seed| {
        simulated(seed, async || {
            let map: HashMap<u32, ()> = (0..20).map(|it| (it, ())).collect();
            let order: Vec<_> = map.into_keys().collect();
            let before = clock::now();
            tokio::time::sleep(Duration::from_secs(86_400)).await;
            let since = clock::now().since(before);
            let file = tempfile::NamedTempFile::new().unwrap();
            let changed = file.as_file().metadata().unwrap().modified().unwrap();
            assert!(changed < clock::system());
            (order, uuid::Uuid::new_v4(), rand::random::<u64>(), since)
        })
    };
    let (one, again, other) = (draw(1), draw(1), draw(2));
    assert_eq!(one, again);
    assert_eq!(one.3, Duration::from_secs(86_400));
    assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let policies = Policies::default();
    for seed in 0..20 {
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
    let Ok(seeds) = std::env::var("SIMULATE") else {
        let trial = try_seeds(&policies, &SEEDS);
        assert_eq!(trial.idle(), Vec::<String>::new(), "{}", trial.table());
        return;
    };
    let trial = try_seeds(&policies, &range(&seeds));
    println!("{}", trial.table());
}

#[test]
fn seeds_that_have_failed_once_do_not_fail() {
    let policies = Policies::default();
    let kept = include_str!("seeds.txt").lines();
    let kept = kept.filter(|line| !line.starts_with('#'));
    for line in kept {
        let (seed, why) = line.split_once(' ').unwrap();
        let seed: u64 = seed.parse().unwrap();
        let wrong = wrong(&policies, &Plan::of(seed), None);
        assert_eq!(wrong, Vec::<String>::new(), "seed {seed}: {why}");
    }
}

#[test]
fn each_fault_that_is_planted_is_found() {
    let policies = Policies::default();
    for planted in planted::ALL {
        let plans = (0..200).map(|seed| (seed, Plan::of(seed)));
        let plans = plans.filter(|(_, plan)| planted.concerns(plan));
        let mut found = plans.map(|(seed, plan)| (seed, wrong(&policies, &plan, Some(planted))));
        let found = found.find(|(_, wrong)| !wrong.is_empty());
        let (seed, wrong) = found.unwrap_or_else(|| panic!("nobody finds {planted:?}"));
        println!("{planted:?}: found by seed {seed}: {}", wrong[0]);
    }
}

/// `SHOW=SEED` prints all events of a seed.
#[test]
fn a_seed_is_shown() {
    let policies = Policies::default();
    let Ok(seed) = std::env::var("SHOW") else {
        return;
    };
    let plan = Plan::of(range(&seed).start);
    let history = run(&policies, plan.clone(), None);
    println!("{plan}");
    for (at, event) in &history.events {
        println!("{:10.3}s  {event:?}", at.as_secs_f64());
    }
    println!("{:#?}", check(&plan, &history));
}
