//! What batch delivery costs, compared with loops that call the same API without it: entries a second, processor time, requests, memory.
//!
//! `make bench` runs it. The other end is a server that accepts batches and, where the table says so, fails one entry in ten at its first attempt, which no emulator does; a proxy adds 10 ms to every request. Each side is a process of its own, this program with other arguments. The sides take turns; the best round of each counts.
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

use measure::{Case, Latency, Servers, Side};

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
        "SQS, no failures, no added latency; goal: 95 % of the bare loop, 0.1 requests for each entry",
        &[
            Case::new(Side::Bare, Latency::None, 0, 200_000),
            Case::new(Side::Deliver, Latency::None, 0, 200_000),
        ],
    ),
    (
        "SQS, no failures, 10 ms added; goal: 95 % of the bare loop",
        &[
            Case::new(Side::Bare, Latency::TenMilliseconds, 0, 60_000),
            Case::new(Side::Deliver, Latency::TenMilliseconds, 0, 60_000),
        ],
    ),
    (
        "DynamoDB, no failures, 10 ms added; goal: 95 % of the bare loop, 0.04 requests for each entry",
        &[
            Case::new(Side::BareDynamoDb, Latency::TenMilliseconds, 0, 100_000),
            Case::new(Side::DeliverDynamoDb, Latency::TenMilliseconds, 0, 100_000),
        ],
    ),
    (
        "SQS, 10 % failing, 10 ms added; goal: three times the recursion",
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
        "SQS, a million entries, 10 % failing, no added latency; goal: the memory of a shorter run",
        &[
            Case::new(Side::Deliver, Latency::None, 10, 100_000),
            Case::new(Side::Deliver, Latency::None, 10, 1_000_000),
        ],
    ),
];

async fn compare(word: &str) {
    for (title, cases) in PLAN.iter().filter(|(title, _)| title.contains(word)) {
        println!("\n{title}");
        println!(
            "  {:<34} {:>10}   {:>15}   {:>14}   {:>11}",
            "", "entries/s", "processor/entry", "requests/entry", "peak memory"
        );
        let failing = cases[0].failing;
        let servers = Servers::start(failing);
        let rounds = if cases[1].entries > 500_000 {
            1
        } else {
            ROUNDS
        };
        let mut best: Vec<Option<measure::Measured>> = vec![None; cases.len()];
        for _ in 0..rounds {
            for (case, best) in cases.iter().zip(&mut best) {
                let measured = measure::measure(&servers, case).await;
                *best = Some(best.map_or(measured, |best| best.better(measured)));
            }
        }
        let best: Vec<_> = best.into_iter().flatten().collect();
        for (case, measured) in cases.iter().zip(&best) {
            println!("  {:<34} {measured}", case.name());
        }
        let (first, last) = (best[0], best[best.len() - 1]);
        println!("  rate: {:.2} of the first", last.rate / first.rate);
    }
}
