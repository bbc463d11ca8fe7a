//! What a new version of a policy costs: from the file to its first decision, the decisions in between, and a start with a policy that is compiled already.
//!
//! `make bench` runs it. Everything is on this machine, and the files are in the page cache.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backstop_core::decision::Bounds;
use backstop_decider::Decider;
use backstop_engine::{Compiler, Limits, Sandbox, builtin};
use backstop_tests::backstop::{Running, command, program};
use backstop_tests::toolchain::Author;
use backstop_versions::{DEBOUNCE, LivePolicy, Source, Watcher};
use tests_benches::{Better, Chapter, Figure, Table, Unit};

/// New versions, one after the other.
const VERSIONS: u8 = 30;

/// How long decisions are timed.
const DECIDING: Duration = Duration::from_secs(8);

/// Starts with each cache, in turns.
const STARTS: usize = 5;

const ABOUT: &str = "A new version of a policy: from the file to its first decision, over the 200 ms in which the file must not change; decisions in between, on as many threads as there are processors, with pauses as messages arrive; and a start with a policy in Python, until its queue is served, with and without compiled code that is kept. A policy is compiled in a child process. Everything is in the page cache.";

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut chapter = Chapter::new("swaps", "Swaps", ABOUT);
    chapter.add(from_file_to_decision(folder.path()));
    chapter.add(decisions_meanwhile(folder.path()));
    chapter.add(starts(folder.path()).await);
    chapter.write();
}

/// Full jitter with a unique custom section: another digest, but the same code to compile.
fn version(number: u8) -> Vec<u8> {
    let mut file = builtin::bytes("full-jitter").unwrap().to_vec();
    file.extend([0, 3, 1, b'v', number]);
    file
}

fn put(path: &Path, file: &[u8]) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, file).unwrap();
    std::fs::rename(beside, path).unwrap();
}

fn live(path: &Path) -> (Arc<LivePolicy>, Watcher) {
    put(path, &version(0));
    // As in `backstop run`: compiled in a child process.
    let sandbox = Sandbox::new(Limits::default())
        .unwrap()
        .with_compiler(Compiler::Child(program("backstop")));
    let policy = LivePolicy::load(&sandbox, Source::path(path).into()).unwrap();
    let watcher = Watcher::start(vec![Arc::clone(&policy)], |_, _| {}).unwrap();
    (policy, watcher)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn from_file_to_decision(folder: &Path) -> Table {
    let path = folder.join("policy.wasm");
    let (policy, _watcher) = live(&path);
    let took = (1..=VERSIONS).map(|number| {
        let before = policy.current().digests();
        put(&path, &version(number));
        let written = Instant::now();
        while policy.current().digests() == before {
            std::thread::sleep(Duration::from_micros(200));
        }
        milliseconds(written.elapsed().saturating_sub(DEBOUNCE))
    });
    let took: Vec<_> = took.collect();
    let longest = took.iter().copied().fold(0.0, f64::max);
    let mut table = Table::new("From a written file to its version deciding")
        .column("time", Unit::Milliseconds, Better::Less)
        .column("longest", Unit::Milliseconds, Better::Less);
    table.ours(
        "a policy in Rust",
        [Figure::of(took), Figure::exact(longest)],
    );
    table
}

/// How long each of many decisions took, sorted, on as many threads as there are processors.
fn decide(policy: &Arc<LivePolicy>, meanwhile: impl FnOnce(&AtomicBool) + Send) -> Vec<Duration> {
    let done = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().unwrap().get();
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let deciding: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let decider = Decider::new("bench", Arc::clone(policy), Bounds::default());
                    let failure = backstop_tests::failure("HTTP 503");
                    let (payload, journey) = (Arc::default(), backstop_tests_host::any_delay());
                    let started = Instant::now();
                    let mut took = Vec::new();
                    while started.elapsed() < DECIDING {
                        let began = Instant::now();
                        decider.decide_now(&failure, &payload, journey.clone());
                        took.push(began.elapsed());
                        // With pauses, as messages arrive.
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    took
                })
            })
            .collect();
        scope.spawn(|| meanwhile(&done));
        let took = deciding.into_iter().flat_map(|it| it.join().unwrap());
        let took = took.collect();
        done.store(true, Ordering::Relaxed);
        took
    });
    took.sort_unstable();
    took
}

fn decisions_meanwhile(folder: &Path) -> Table {
    let path = folder.join("meanwhile.wasm");
    let (policy, _watcher) = live(&path);
    let quiet = decide(&policy, |_| {});
    let mut swaps = 0;
    let swapped = decide(&policy, |done| {
        let mut number = 0_u8;
        while !done.load(Ordering::Relaxed) {
            number = number.wrapping_add(1);
            let before = policy.current().digests();
            put(&path, &version(number));
            while policy.current().digests() == before && !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            swaps += 1;
        }
    });
    let mut table = Table::new("A decision while versions are swapped")
        .column("median", Unit::Microseconds, Better::Less)
        .column("99th percentile", Unit::Microseconds, Better::Less)
        .column("99.9th percentile", Unit::Microseconds, Better::Less);
    let seconds = DECIDING.as_secs();
    for (what, took) in [
        (format!("without swaps, {seconds} s"), &quiet),
        (format!("with {swaps} swaps in {seconds} s"), &swapped),
    ] {
        let microseconds = |part: usize| took[took.len() * part / 1000].as_secs_f64() * 1e6;
        let figures = [500, 990, 999].map(microseconds);
        table.ours(what, figures.map(Figure::exact));
    }
    table
}

/// A start until the queue is served, with a policy in Python.
async fn starts(folder: &Path) -> Table {
    let author = Author::new("python").await;
    let built = author.backstop(&["policy", "build"]).await;
    assert!(built.status.success());
    let policy = author.component();
    let start = async |cache: &str| {
        let arguments = [
            "run",
            "--json",
            "--queue-url",
            "local:bench",
            "--exec",
            "true",
            "--policy",
            policy.to_str().unwrap(),
        ];
        let mut command = command(&arguments);
        command.env("BACKSTOP_CACHE", cache);
        let started = Instant::now();
        let running = Running::start_command(command).await;
        let took = started.elapsed();
        running.stop().await;
        took
    };
    let cache = folder.join("kept");
    let cache = cache.to_str().unwrap();
    let first = start(cache).await;
    let (mut kept, mut off) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        kept.push(start(cache).await);
        off.push(start("off").await);
    }
    let mut table = Table::new("A start with a policy in Python, until its queue is served")
        .column("time", Unit::Milliseconds, Better::Less);
    for (what, took) in [
        ("nothing is kept", off),
        ("the first start, which keeps compiled code", vec![first]),
        ("compiled before", kept),
    ] {
        table.ours(what, [Figure::of(took.into_iter().map(milliseconds))]);
    }
    table
}
