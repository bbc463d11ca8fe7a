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
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use endless::{Endless, description, message};

const ABOUT: &str = "Messages fail and wait, up to as many as SQS holds invisible: each with an id, a receipt handle of 412 characters and an error text with a request id of its own, so that hardly anything can be compressed. The queue is a stand-in that answers at once and takes no memory. Each row is a process of its own.";

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
        Some("host") => {
            let messages = std::env::args().nth(2).unwrap().parse().unwrap();
            runtime.block_on(host(messages));
        }
        Some("remember") => runtime.block_on(remember()),
        // `cargo bench` passes `--bench`.
        _ => all_parts(),
    }
    ExitCode::SUCCESS
}

/// What a part prints: numbers.
fn part(arguments: &[&str]) -> Vec<Figure> {
    let itself = std::env::current_exe().unwrap();
    let output = Command::new(itself).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let numbers = String::from_utf8(output.stdout).unwrap();
    let numbers = numbers.split_whitespace().map(|it| it.parse().unwrap());
    numbers.map(Figure::exact).collect()
}

fn all_parts() {
    let mut chapter = Chapter::new("waiting", "Messages that wait", ABOUT);
    let mut table = Table::new("A host with messages that wait")
        .column("resident memory", Unit::Mebibytes, Better::Less)
        .column("more for each", Unit::Bytes, Better::Less)
        .column("waking all of them", Unit::Seconds, Better::Less);
    for messages in [0, MESSAGES / 4, MESSAGES / 2, MESSAGES] {
        let figures = part(&["host", &messages.to_string()]);
        let [rest, full, each, wake] = figures[..] else {
            panic!("{figures:?}");
        };
        if messages == 0 {
            table.ours("none: a host at rest", [Some(rest), None, None]);
            continue;
        }
        assert!(full.median <= MOST, "{full} MiB");
        table.ours(format!("{messages}"), [full, each, wake].map(Some));
    }
    chapter.add(table);
    let mut table = Table::new("A failure, on its path alone")
        .column("time", Unit::Microseconds, Better::Less)
        .column("memory", Unit::Bytes, Better::Less);
    let figures = part(&["remember"]);
    let [bytes, remembering, deciding] = figures[..] else {
        panic!("{figures:?}");
    };
    table.ours("remembering the message", [Some(remembering), Some(bytes)]);
    table.ours("for scale: the decision before it", [Some(deciding), None]);
    chapter.add(table);
    chapter.write();
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

/// A whole host: resident memory at rest and with all messages waiting, in MiB, the bytes of each, and the seconds of waking them.
async fn host(messages: usize) {
    let consumer = consumer(messages);
    let waiting = consumer.waiting();
    let rest = resident();
    let stop = CancellationToken::new();
    let run = tokio::spawn(consumer.run(stop.clone()));
    let all = Filter::default();
    while waiting.report(&all).await.waiting < messages as u64 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let full = resident();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let each = (full - rest) * 1_048_576.0 / (messages.max(1) as f64);
    let started = clock::instant();
    let wake = Wake {
        spread: Milliseconds(300_000),
        ..Wake::default()
    };
    let woken = waiting.wake(&wake).await;
    assert!(woken.woken >= messages as u64 / 10 * 9, "{woken:?}");
    let took = started.elapsed().as_secs_f64();
    println!("{rest} {full} {each} {took}");
    stop.cancel();
    run.await.unwrap();
}

/// The bytes that a remembered message takes without the history of its attempts, and the microseconds of remembering and of deciding.
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
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
    println!("{each} {} {}", micros(took), micros(decided));
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
