//! What a host pays for remembering the messages that wait: memory, and time for each failure.
//!
//! `make bench` runs it. The queue is a stand-in that delivers messages with ids and receipt handles like those of SQS, each with a failure of its own, so that only the host takes memory and time. Each part runs in a process of its own.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod endless;

use std::num::NonZeroU32;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use backstop_core::clock;
use backstop_core::decision::{Bounds, Reach};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};
use backstop_decider::{Decider, Journey};
use backstop_engine::Payload;
use backstop_handlers::{Handler, function};
use backstop_host::consumer::{Consumer, Options, Ready};
use backstop_queue::{Message, VisibilityTimeout};
use backstop_settle::hold::HoldMode;
use backstop_settle::waiting::{Filter, Wake};
use backstop_tests::process::resident_memory;
use backstop_tests_host::builtin;
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use endless::{Endless, description, message};

const MESSAGES: usize = 120_000;

/// The most resident memory of a host with all of them waiting, in MiB.
const MOST: f64 = 100.0;

fn main() -> ExitCode {
    // Compiles in a child process, as the `backstop` command does.
    backstop_engine::compiler_process().unwrap_or_else(measure)
}

fn measure() -> ExitCode {
    let part = std::env::args().nth(1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match part.as_deref() {
        Some("host") => runtime.block_on(host()),
        Some("remember") => runtime.block_on(remember()),
        // `cargo bench` passes `--bench`.
        _ => {
            println!("{MESSAGES} waiting messages, ids and handles as SQS has them");
            for part in ["host", "remember"] {
                let itself = std::env::current_exe().unwrap();
                assert!(Command::new(itself).arg(part).status().unwrap().success());
            }
        }
    }
    ExitCode::SUCCESS
}

fn row(what: &str, figure: String, remark: &str) {
    println!("  {what:<48} {figure:>10}   {remark}");
}

/// An error with a text of its own.
fn error() -> Error {
    let request = Uuid::new_v4();
    Error::new(
        "HTTP 503",
        format!("Service Unavailable (request {request})"),
    )
    .status(503)
}

fn consumer(messages: usize) -> Consumer {
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
    let handler: Arc<dyn Handler> = Arc::new(function(async |_| Err(error())));
    let options = Options {
        hold: HoldMode::Visibility,
        grace: Duration::from_secs(1),
        ..Options::default()
    };
    Consumer::new("orders", ready, handler, decider(), options)
}

fn decider() -> Decider {
    // No message comes back while the benchmark runs.
    let policy = builtin("linear", [("base", "11h"), ("cap", "11h")]);
    Decider::new("orders", policy, Bounds::default())
}

/// A whole host: resident memory at rest, and with all messages waiting.
async fn host() {
    let consumer = consumer(MESSAGES);
    let waiting = consumer.waiting();
    let rest = resident();
    row("a host at rest", format!("{rest:.1} MiB"), "");
    let stop = CancellationToken::new();
    let run = tokio::spawn(consumer.run(stop.clone()));
    let all = Filter::default();
    while waiting.report(&all).await.waiting < MESSAGES as u64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let full = resident();
    row(
        "the same host with all of them waiting",
        format!("{full:.1} MiB"),
        "goal: 100 MiB at most",
    );
    assert!(full <= MOST, "{full:.1} MiB");
    let each = (full - rest) * 1_048_576.0 / f64::from(u32::try_from(MESSAGES).unwrap());
    row("more for each message", format!("{each:.0} B"), "");
    let started = clock::instant();
    let wake = Wake {
        spread: Milliseconds(300_000),
        ..Wake::default()
    };
    let woken = waiting.wake(&wake).await;
    assert!(woken.woken > MESSAGES as u64 / 10 * 9, "{woken:?}");
    row(
        "waking all of them, with a queue that answers at once",
        format!("{:.2} s", started.elapsed().as_secs_f64()),
        "",
    );
    stop.cancel();
    run.await.unwrap();
}

/// What the failure path pays to remember a message, and the memory that this takes.
async fn remember() {
    let consumer = consumer(0);
    let (waiting, decider) = (consumer.waiting(), decider());
    let payload = Arc::new(Payload::new(""));
    let reach = Reach::visibility(Milliseconds(u32::MAX), Milliseconds(0));
    let rest = resident();
    let mut took = Duration::ZERO;
    let mut decided = Duration::ZERO;
    for _ in 0..MESSAGES {
        let message = message();
        let failure = failure(&message);
        let started = clock::instant();
        let decision = decider.decide_now(&failure, &payload, Journey::direct(reach));
        decided += started.elapsed();
        let seconds = rand::rng().random_range(3_600..40_000);
        let timeout = VisibilityTimeout::from_seconds(seconds);
        let now = tokio::time::Instant::now();
        let started = clock::instant();
        waiting.hidden(&message, now, timeout, Some((&failure, &decision)));
        took += started.elapsed();
    }
    let count = u32::try_from(MESSAGES).unwrap();
    let each = (resident() - rest) * 1_048_576.0 / f64::from(count);
    row(
        "of these, for what waits",
        format!("{each:.0} B"),
        "the rest is the history of attempts",
    );
    let micros = |time: Duration| format!("{:.2} µs", time.as_secs_f64() * 1e6 / f64::from(count));
    row(
        "remembering a message",
        micros(took),
        "on the failure path alone",
    );
    row("for comparison: the decision", micros(decided), "");
}

fn failure(message: &Message) -> Failure {
    Failure {
        message_id: message.id.clone(),
        source: description().arn,
        attempt: NonZeroU32::MIN,
        age: Milliseconds(5_000),
        failed_at: Timestamp(clock::now().0),
        previous_delay: None,
        error: error(),
        attributes: Vec::new(),
        random: random(&message.id, NonZeroU32::MIN),
    }
}

/// The resident memory of this process, in MiB.
fn resident() -> f64 {
    resident_memory(std::process::id())
}
