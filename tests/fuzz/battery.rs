//! Runs a target: with its kept inputs, and with others that are made of them. An input that fails is made small, kept in a file, and named.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use backstop_core::clock;
use nix::time::{ClockId, clock_gettime};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use crate::mutation::{Words, mutate};
use crate::{Target, corpus};

/// The most processor time for one input: what is slower can be used to keep a host busy.
const SLOW: Duration = Duration::from_secs(20);

/// How often an input that fails is made smaller.
const SMALLER: usize = 400;

/// What was tried.
#[derive(Debug, Default)]
pub struct Report {
    tried: u64,
    slowest: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, slowest } = self;
        write!(
            f,
            "{tried} others, the slowest in {slowest:?} of processor time,"
        )
    }
}

/// Runs the target with each of its kept inputs. Returns how many there are.
pub fn replay(target: &Target) -> usize {
    let inputs = corpus(target);
    // What a target makes once is none of an input's time.
    if let Some((_, first)) = inputs.first() {
        (target.run)(first);
    }
    for (path, input) in &inputs {
        run(target, input).unwrap_or_else(|failure| {
            eprintln!("the kept input {} of {} fails", path.display(), target.name);
            resume_unwind(failure)
        });
    }
    inputs.len()
}

/// Runs the target with inputs that are made of its kept ones: so many, or for this long.
pub fn try_others(target: &Target, most: u64, time: Duration, seed: u64) -> Report {
    let kept: Vec<_> = corpus(target).into_iter().map(|(_, input)| input).collect();
    let words = Words::of(&kept);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut report = Report::default();
    let started = clock::instant();
    while report.tried < most && started.elapsed() < time {
        let mut input = kept[rng.random_range(0..kept.len())].clone();
        for _ in 0..1 << rng.random_range(0..4) {
            let other = &kept[rng.random_range(0..kept.len())];
            mutate(&mut input, other, &words, &mut rng);
        }
        input.truncate(target.most);
        match run(target, &input) {
            Ok(took) => report.slowest = report.slowest.max(took),
            Err(failure) => {
                let path = keep(target, &smaller(target, input));
                let variable = format!("FUZZ_TARGET={}", target.name);
                eprintln!(
                    "seed {seed}, input {}: kept in {}; copy it to tests/fuzz/corpus/{} once it is understood ({variable})",
                    report.tried,
                    path.display(),
                    target.name
                );
                resume_unwind(failure)
            }
        }
        report.tried += 1;
    }
    report
}

type Failure = Box<dyn std::any::Any + Send>;

/// The processor time that an input took, or what it failed with.
fn run(target: &Target, input: &[u8]) -> Result<Duration, Failure> {
    let before = processor_time();
    catch_unwind(AssertUnwindSafe(|| {
        (target.run)(input);
        let took = processor_time().saturating_sub(before);
        assert!(took < SLOW, "one input took {took:?} of processor time");
        took
    }))
}

/// The processor time of this process.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    time.into()
}

/// A smaller input that fails too: without a piece, as long as there is such a piece.
fn smaller(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let mut tries = 0;
    let mut piece = input.len() / 2;
    while piece > 0 && tries < SMALLER {
        let mut at = 0;
        while at < input.len() && tries < SMALLER {
            let mut less = input.clone();
            less.drain(at..(at + piece).min(input.len()));
            tries += 1;
            if run(target, &less).is_err() {
                input = less;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    input
}

/// Writes an input to a folder of this build.
fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join("backstop-fuzz");
    std::fs::create_dir_all(&folder).unwrap();
    let digest = format!(
        "{:x}",
        Sha256::digest(input)
            .iter()
            .take(6)
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    );
    let path = folder.join(format!("{}-{digest}", target.name));
    std::fs::write(&path, input).unwrap();
    path
}
