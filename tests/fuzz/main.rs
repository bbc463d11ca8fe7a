//! Each target replays its kept inputs, and then tries others: `FUZZ_INPUTS` of them, for `FUZZ_SECONDS` at most. `FUZZ_SEED` is another start than the usual one.

use std::time::Duration;

use tests_fuzz::{replay, target, try_others};

/// How long each target tries inputs that are not kept, unless `FUZZ_SECONDS` says otherwise.
const SECONDS: u64 = 2;

/// How many inputs that are not kept each target tries at most, unless `FUZZ_INPUTS` says otherwise: a faster machine goes no further.
const INPUTS: u64 = 50_000;

/// The same in every run: what fails here fails because of a change.
const SEED: u64 = 1;

fn run(name: &str) -> String {
    let target = target(name).expect("the name is one of the table");
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seconds = variable("FUZZ_SECONDS").unwrap_or(SECONDS);
    let inputs = variable("FUZZ_INPUTS").unwrap_or(INPUTS);
    let seed = variable("FUZZ_SEED").unwrap_or(SEED);
    let kept = replay(target);
    assert!(kept > 0, "{name} has no kept inputs");
    let report = try_others(target, inputs, Duration::from_secs(seconds), seed);
    format!("{name}: {kept} kept inputs, then {report} with the seed {seed}")
}

macro_rules! tests {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            println!("{}", run(stringify!($name)));
        })+
    };
}

tests_fuzz::for_each_target!(tests);
