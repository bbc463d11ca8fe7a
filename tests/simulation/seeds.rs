//! Tries seeds, one after the other, on all processors.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use backstop_core::clock;
use backstop_core::lock::lock;

/// What a seed has shown.
pub(crate) struct Found {
    pub(crate) events: usize,
    pub(crate) wrong: Vec<String>,
}

/// Tries these seeds, or those of `SIMULATE`, and fails with the report of the first that shows a fault.
pub(crate) fn try_seeds(
    seeds: Range<u64>,
    tried: impl Fn(u64) -> Found + Sync,
    report: impl Fn(u64) -> String,
) {
    let seeds = match std::env::var("SIMULATE") {
        Ok(seeds) => super::range(&seeds),
        Err(_) => seeds,
    };
    assert!(!seeds.is_empty(), "{seeds:?} has no seed");
    let began = clock::instant();
    let (next, events, bad) = (
        AtomicU64::new(seeds.start),
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
    );
    let try_some = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let found = tried(seed);
            events.fetch_add(found.events, Ordering::Relaxed);
            if !found.wrong.is_empty() {
                println!("seed {seed}: {}", found.wrong.join("; "));
                lock(&bad).push(seed);
            }
        }
    };
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            threads.spawn(try_some);
        }
    });
    let mut bad = lock(&bad).clone();
    bad.sort_unstable();
    let (events, took) = (events.into_inner(), began.elapsed());
    println!("seeds {seeds:?}: {events} events in {took:?}, wrong: {bad:?}");
    if let Some(seed) = bad.first() {
        panic!("seed {seed}: {}", report(*seed));
    }
}

/// Looks for each planted fault, seed by seed, until one shows it.
pub(crate) fn each_planted_is_found<P: Copy + Debug>(
    all: &[P],
    wrong: impl Fn(u64, P) -> Vec<String>,
) {
    for planted in all {
        let mut found = (0..60).map(|seed| (seed, wrong(seed, *planted)));
        let found = found.find(|(_, wrong)| !wrong.is_empty());
        let (seed, wrong) = found.unwrap_or_else(|| panic!("nobody finds {planted:?}"));
        println!("{planted:?}: found by seed {seed}: {}", wrong[0]);
    }
}
