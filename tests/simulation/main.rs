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
mod determinism;
mod history;
mod host;
mod link;
mod model;
mod plan;
mod planted;
mod policies;
mod run;
mod shrink;
mod worker;
mod world;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use backstop_core::clock;
use backstop_core::lock::lock;

use checker::check;
use determinism::simulated;
use plan::Plan;
use planted::Planted;
use policies::Policies;
use run::run;
use shrink::shrunk;

/// How many seeds each run of the tests tries.
const SEEDS: Range<u64> = 0..500;

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
    check(plan, &run(policies, plan.clone(), planted))
}

/// The smallest plan that shows what is wrong, with the life of the first message that it concerns.
fn report(policies: &Policies, plan: Plan) -> String {
    let plan = shrunk(plan, |plan| !wrong(policies, plan, None).is_empty());
    let history = run(policies, plan.clone(), None);
    let wrong = check(&plan, &history);
    let number = wrong[0].split("message ").nth(1);
    let number = number.and_then(|it| it.split(' ').next()?.parse().ok());
    let life = number.map_or_else(String::new, |number| history.of(number));
    format!("{}\n{plan:#?}\n{life}", wrong.join("\n"))
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
    let seeds = match std::env::var("SIMULATE") {
        Ok(seeds) => range(&seeds),
        Err(_) => SEEDS,
    };
    assert!(!seeds.is_empty(), "{seeds:?} has no seed");
    let began = clock::instant();
    let (next, events, bad) = (
        AtomicU64::new(seeds.start),
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
    );
    let try_seeds = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let plan = Plan::of(seed);
            let history = run(&policies, plan.clone(), None);
            events.fetch_add(history.events.len(), Ordering::Relaxed);
            let wrong = check(&plan, &history);
            if !wrong.is_empty() {
                println!("seed {seed}: {}", wrong.join("; "));
                lock(&bad).push(seed);
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            threads.spawn(try_seeds);
        }
    });
    let bad = lock(&bad).clone();
    let (events, took) = (events.into_inner(), began.elapsed());
    println!("seeds {seeds:?}: {events} events in {took:?}, wrong: {bad:?}");
    if let Some(seed) = bad.first() {
        panic!("seed {seed}: {}", report(&policies, Plan::of(*seed)));
    }
}

#[test]
fn each_fault_that_is_planted_is_found() {
    let policies = Policies::default();
    for planted in planted::ALL {
        let mut found =
            (0..60).map(|seed| (seed, wrong(&policies, &Plan::of(seed), Some(planted))));
        let found = found.find(|(_, wrong)| !wrong.is_empty());
        let (seed, wrong) = found.unwrap_or_else(|| panic!("nobody finds {planted:?}"));
        println!("{planted:?}: found by seed {seed}: {}", wrong[0]);
    }
}
