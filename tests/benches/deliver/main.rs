//! What batch delivery costs, compared with loops that call the same API without it: entries a second, processor time, requests, memory.
//!
//! `make bench` runs it. The other end is a server that accepts batches and, where the table says so, fails one entry in ten at its first attempt, which no emulator does; a proxy adds 10 ms to every request. Each side is a process of its own, this program with other arguments. The sides take turns.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod measure;
#[path = "../throughput/proxy.rs"]
mod proxy;
mod server;
mod sides;

use measure::{Case, Latency, Measured, Servers, Side};
use tests_benches::{Better, Chapter, Figure, Table, Unit};

const ABOUT: &str = "Each side is a process of its own. The other end is a server of the benchmark, on the same processors, that accepts batches of SQS and DynamoDB and, where the table says so, fails one entry in ten once; no emulator does that. A bare loop sends full batches of entries of 200 bytes, with as many requests in flight as Backstop. The recursion sends a batch, sends what failed again after a backoff, and goes on to the next batch when nothing is left. Three rounds in turns.";

/// Rounds of each case.
const ROUNDS: usize = 3;

/// Entries in flight: requests, each full.
const REQUESTS: usize = 16;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let rest = || sides::Work::from_arguments(&arguments[1..]);
    match arguments.first().map(String::as_str) {
        Some("proxy") => runtime_of_one_thread().block_on(proxy::run(&arguments[1])),
        Some("server") => runtime_of_one_thread().block_on(server::run(&arguments[1])),
        Some("bare") => runtime().block_on(sides::bare(rest())),
        Some("deliver") => runtime().block_on(sides::deliver(rest())),
        Some("recursive") => runtime().block_on(sides::recursive(rest())),
        Some("bare-dynamodb") => runtime().block_on(sides::bare_dynamodb(rest())),
        Some("deliver-dynamodb") => runtime().block_on(sides::deliver_dynamodb(rest())),
        // `cargo bench` adds `--bench`; a word selects the cases whose names contain it.
        _ => {
            let word = arguments.iter().find(|word| !word.starts_with("--"));
            runtime().block_on(compare(word.map_or("", String::as_str)));
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

fn runtime_of_one_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// The sides of one setting, of which the first is the one to compare with.
const PLAN: [(&str, &[Case]); 5] = [
    (
        "SQS, no failures, no added latency",
        &[
            Case::new(Side::Bare, Latency::None, 0, 200_000),
            Case::new(Side::Deliver, Latency::None, 0, 200_000),
        ],
    ),
    (
        "SQS, no failures, 10 ms added to each request",
        &[
            Case::new(Side::Bare, Latency::TenMilliseconds, 0, 60_000),
            Case::new(Side::Deliver, Latency::TenMilliseconds, 0, 60_000),
        ],
    ),
    (
        "DynamoDB, no failures, 10 ms added to each request",
        &[
            Case::new(Side::BareDynamoDb, Latency::TenMilliseconds, 0, 100_000),
            Case::new(Side::DeliverDynamoDb, Latency::TenMilliseconds, 0, 100_000),
        ],
    ),
    (
        "SQS, 10 % failing once, 10 ms added to each request",
        &[
            Case::new(Side::Recursive(1), Latency::TenMilliseconds, 10, 1_000),
            Case::new(
                Side::Recursive(REQUESTS),
                Latency::TenMilliseconds,
                10,
                10_000,
            ),
            Case::new(Side::Deliver, Latency::TenMilliseconds, 10, 60_000),
        ],
    ),
    (
        "SQS, 100,000 and a million entries, 10 % failing once, no added latency",
        &[
            Case::new(Side::Deliver, Latency::None, 10, 100_000),
            Case::new(Side::Deliver, Latency::None, 10, 1_000_000),
        ],
    ),
];

async fn compare(word: &str) {
    let mut chapter = Chapter::new("deliver", "Batch delivery", ABOUT);
    for (title, cases) in PLAN.iter().filter(|(title, _)| title.contains(word)) {
        let servers = Servers::start(cases[0].failing);
        let rounds = if cases[1].entries > 500_000 {
            1
        } else {
            ROUNDS
        };
        let mut measured = vec![Vec::new(); cases.len()];
        for _ in 0..rounds {
            for (case, measured) in cases.iter().zip(&mut measured) {
                measured.push(measure::measure(&servers, case).await);
            }
        }
        let mut table = Table::new(title)
            .column("entries a second", Unit::PerSecond, Better::More)
            .column("processor time an entry", Unit::Microseconds, Better::Less)
            .column("requests an entry", Unit::Number, Better::Less)
            .column("peak memory", Unit::Mebibytes, Better::Less)
            .because("A loop keeps nothing of an entry that was accepted, and has no order to fill batches from: Backstop reads each answer entry by entry, and remembers what is under way.");
        for (case, rounds) in cases.iter().zip(&measured) {
            let figure = |of: fn(&Measured) -> f64| Figure::of(rounds.iter().map(of));
            let figures = [
                figure(|it| it.rate),
                figure(|it| it.processor),
                figure(|it| it.requests),
                figure(|it| it.memory),
            ];
            table.row(case.is_ours(), case.name(), figures);
        }
        chapter.add(table);
    }
    // A part replaces no report of the whole.
    if word.is_empty() {
        chapter.write();
    }
}
