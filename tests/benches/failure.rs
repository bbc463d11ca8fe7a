//! What a failure costs a host, and where that goes: processor time of all threads, and allocations. Each row adds one step to the row above it.
//!
//! `make bench` runs it. The rows take turns; the median of the rounds of each counts. The name of a row and a number run this row alone for so many failures, for a profiler: `cargo bench --locked --workspace --bench failure -- record 50000`.
#![allow(
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails; figures are for people"
)]

mod endless;

use std::alloc::{GlobalAlloc, Layout};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use backstop_core::clock;
use backstop_core::decision::{Bounds, Reach};
use backstop_core::failure::{Error, Failure, Milliseconds, random};
use backstop_decider::{Decider, Journey};
use backstop_engine::{Limits, Payload, Policy, Sandbox};
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{Consumer, Options, Ready};
use backstop_queue::Message;
use backstop_records::Recorder;
use backstop_settle::hold::HoldMode;
use backstop_versions::{LivePolicy, PartSpec, PolicySpec, Source};
use futures_util::future::join_all;
use mimalloc::MiMalloc;
use nix::time::{ClockId, clock_gettime};
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use endless::{Endless, description};

const ABOUT: &str = "What a failure costs a host, and where that goes: processor time of all threads, and allocations. Each row adds one step to the row above it; the rows take turns, seven rounds. The queue is a stand-in that answers at once, so what requests to SQS cost is not in it.";

/// The failures of a row in each round.
const FAILURES: usize = 20_000;

const ROUNDS: usize = 7;

/// Messages whose failures are decided at the same time, as many as a consumer has in flight.
const AT_ONCE: usize = 100;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocator of the `backstop` command, with a count of allocations in the rounds that measure no time.
struct Counting;

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe; this one passes everything on"
)]
// SAFETY: every call goes to mimalloc unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller guarantees.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller guarantees.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller guarantees.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}

fn count() {
    if IS_COUNTING.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
}

/// What so many failures took.
struct Cost {
    /// Processor time, in seconds.
    processor: f64,
    elapsed: Duration,
    allocations: usize,
}

impl Cost {
    fn of(work: impl FnOnce()) -> Self {
        let (processor, started) = (processor_seconds(), clock::instant());
        let allocations = ALLOCATIONS.load(Relaxed);
        work();
        Self {
            processor: processor_seconds() - processor,
            elapsed: started.elapsed(),
            allocations: ALLOCATIONS.load(Relaxed) - allocations,
        }
    }
}

fn processor_seconds() -> f64 {
    let spent = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    Duration::from(spent).as_secs_f64()
}

/// A row of the table.
struct Row {
    name: &'static str,
    what: &'static str,
    /// Whether it is a step of the same failure, or something to compare it with.
    is_step: bool,
    measure: fn(&Runtime, usize) -> Cost,
}

const ROWS: [Row; 8] = [
    Row {
        name: "live",
        what: "the policy's answers, in a live instance",
        is_step: true,
        measure: live,
    },
    Row {
        name: "fresh",
        what: "a fresh instance for each failure",
        is_step: true,
        measure: fresh,
    },
    Row {
        name: "decide",
        what: "the decision, its metrics and its log",
        is_step: true,
        measure: decide,
    },
    Row {
        name: "record",
        what: "the decision record, written to a file",
        is_step: true,
        measure: record,
    },
    Row {
        name: "tasks",
        what: "100 messages at the same time, on all processors",
        is_step: true,
        measure: tasks,
    },
    Row {
        name: "threads",
        what: "for comparison: a policy that is not quick, on threads of its own",
        is_step: false,
        measure: threads,
    },
    Row {
        name: "consumer",
        what: "the consumer: receive, attempt, settle, remember",
        is_step: true,
        measure: consumer,
    },
    Row {
        name: "success",
        what: "for comparison: a message that succeeds",
        is_step: false,
        measure: success,
    },
];

fn main() {
    let runtime = Runtime::new().unwrap();
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    match arguments.next() {
        Some(name) => {
            let row = ROWS.iter().find(|row| row.name == name).unwrap();
            let count = arguments.next().map_or(FAILURES, |it| it.parse().unwrap());
            let cost = (row.measure)(&runtime, count);
            let each = cost.processor * 1e6 / count as f64;
            let rate = count as f64 / cost.elapsed.as_secs_f64();
            println!("{name}: {each:.1} µs of processor time each, {rate:.0}/s");
        }
        None => table(&runtime),
    }
}

fn table(runtime: &Runtime) {
    let mut rounds: [Vec<Cost>; ROWS.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (row, costs) in ROWS.iter().zip(&mut rounds) {
            costs.push((row.measure)(runtime, FAILURES));
        }
    }
    IS_COUNTING.store(true, Relaxed);
    let mut table = Table::new("A failure, and each step that is added")
        .column("processor time", Unit::Microseconds, Better::Less)
        .column("added", Unit::Microseconds, None)
        .column("failures a second", Unit::PerSecond, Better::More)
        .column("allocations", Unit::Number, Better::Less);
    let mut before = 0.0;
    for (row, costs) in ROWS.iter().zip(rounds) {
        let each = Figure::of(costs.iter().map(|it| 1e6 * it.processor / FAILURES as f64));
        let seconds = costs.iter().map(|it| it.elapsed.as_secs_f64());
        let rate = Figure::of(seconds.map(|it| FAILURES as f64 / it));
        let allocations = (row.measure)(runtime, FAILURES).allocations as f64 / FAILURES as f64;
        let added = row.is_step.then(|| {
            let added = each.median - std::mem::replace(&mut before, each.median);
            Figure::exact(added)
        });
        let allocations = Figure::exact(allocations.round());
        table.ours(row.what, [Some(each), added, Some(rate), Some(allocations)]);
    }
    let mut chapter = Chapter::new("failure", "A failure", ABOUT);
    chapter.add(table);
    chapter.write();
}

fn policy() -> Arc<LivePolicy> {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let part = PartSpec {
        source: Source::builtin("full-jitter"),
        // No message comes back while the benchmark runs.
        settings: [("base", "1h"), ("cap", "11h")].into(),
    };
    LivePolicy::load(&sandbox, PolicySpec::Single(part)).unwrap()
}

/// Messages that can wait for any time.
fn any_delay() -> Journey {
    Journey::direct(Reach::visibility(Milliseconds(u32::MAX), Milliseconds(0)))
}

fn decider() -> Decider {
    Decider::new("orders", policy(), Bounds::default())
}

fn payload() -> Arc<Payload> {
    let body: Arc<str> = r#"{"order": 7, "customer": "c-1"}"#.into();
    Arc::new(Payload::new(body))
}

fn error() -> Error {
    Error::new("ECONNRESET", "connection reset by peer")
}

fn failure(number: usize) -> Failure {
    let message_id = format!("c9b7a3d0-0000-4000-8000-{number:012}");
    let attempt = NonZeroU32::MIN;
    Failure {
        random: random(&message_id, attempt),
        message_id,
        source: description().arn,
        attempt,
        failed_at: clock::now(),
        age: Milliseconds(3_000),
        previous_delay: None,
        error: error(),
        attributes: vec![("tenant".to_owned(), "a".to_owned())],
    }
}

fn live(_: &Runtime, failures: usize) -> Cost {
    let policy = policy().current();
    let payload = payload();
    let mut session = policy.session(&payload);
    Cost::of(|| {
        for number in 0..failures {
            session.evaluate(&failure(number)).unwrap();
        }
    })
}

fn fresh(_: &Runtime, failures: usize) -> Cost {
    let policy: Arc<Policy> = policy().current();
    Cost::of(|| {
        for number in 0..failures {
            policy
                .evaluate(&failure(number), &payload())
                .answer
                .unwrap();
        }
    })
}

fn decide(_: &Runtime, failures: usize) -> Cost {
    let decider = decider();
    Cost::of(|| {
        for number in 0..failures {
            let _ = decider.decide_now(&failure(number), &payload(), any_delay());
        }
    })
}

fn record(_: &Runtime, failures: usize) -> Cost {
    recorded(failures, |decider| {
        for number in 0..failures {
            let _ = decider.decide_now(&failure(number), &payload(), any_delay());
        }
    })
}

fn tasks(runtime: &Runtime, failures: usize) -> Cost {
    at_once(runtime, failures, payload)
}

/// No policy answers quickly to a failure with a payload of this size.
fn threads(runtime: &Runtime, failures: usize) -> Cost {
    let body: Arc<str> = "x".repeat(100 << 10).into();
    at_once(runtime, failures, move || {
        Arc::new(Payload::new(Arc::clone(&body)))
    })
}

fn at_once(
    runtime: &Runtime,
    failures: usize,
    payload: impl Fn() -> Arc<Payload> + Clone + Send + 'static,
) -> Cost {
    recorded(failures, |decider| {
        let next = Arc::new(AtomicUsize::new(0));
        let tasks = (0..AT_ONCE).map(|_| {
            let (decider, next) = (decider.clone(), Arc::clone(&next));
            let payload = payload.clone();
            let task = async move {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= failures {
                        break;
                    }
                    let failure = Arc::new(failure(number));
                    let _ = decider.decide(&failure, payload(), any_delay()).await;
                }
            };
            runtime.spawn(task)
        });
        for ended in runtime.block_on(join_all(tasks)) {
            ended.unwrap();
        }
    })
}

fn consumer(runtime: &Runtime, failures: usize) -> Cost {
    recorded(failures, |decider| {
        consumed(runtime, failures, decider, async |_| Err(error()));
    })
}

fn success(runtime: &Runtime, messages: usize) -> Cost {
    let decider = decider();
    Cost::of(|| consumed(runtime, messages, decider, async |_| Ok(())))
}

/// The cost of decisions that are recorded, until the last record is written.
fn recorded(failures: usize, work: impl FnOnce(Decider)) -> Cost {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.jsonl");
    let recorder = Recorder::to_file(&path).unwrap();
    let decider = decider().observed_by(Arc::clone(&recorder) as _);
    let cost = Cost::of(|| {
        work(decider);
        assert!(recorder.flush(Duration::from_secs(10)));
    });
    let records = std::fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(records, failures);
    cost
}

/// Runs a consumer over this many messages, until the last is settled.
fn consumed<F, W>(runtime: &Runtime, messages: usize, decider: Decider, work: F)
where
    F: Fn(Arc<Message>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Error>> + Send + 'static,
{
    let handler: Arc<dyn Handler> = Arc::new(function(work));
    let ready = Ready {
        queue: Arc::new(Endless {
            left: AtomicUsize::new(messages),
        }),
        description: description(),
        envelope_keys: None,
        dead_letters: None,
        class_dead_letters: Default::default(),
        unavailable: None,
    };
    let options = Options {
        hold: HoldMode::Visibility,
        grace: Duration::from_secs(1),
        ..Options::default()
    };
    runtime.block_on(async {
        let consumer = Consumer::new("orders", ready, handler, decider, options);
        let stats = consumer.stats();
        let run = tokio::spawn(consumer.run(CancellationToken::new()));
        let messages = u64::try_from(messages).unwrap();
        while stats.succeeded.get() + stats.retried.get() < messages {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Without its last poll, which would wait for more.
        run.abort();
    });
}
