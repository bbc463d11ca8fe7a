//! What the consumer costs, compared with loops that call the same API without it: messages a second, processor time, requests, memory.
//!
//! `make bench` runs it, against fauxqs on the loopback address and behind a proxy that adds 10 ms to every request. Each side is a process of its own, this program with other arguments or a script, so that nobody's processor time is mixed. The sides take turns; the median of the rounds of each counts. A side prints `start`, and `end` with its seconds when the last message is settled.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod bare;
mod consumer;
mod deciding;
mod plan;
mod proxy;
mod run;
mod table;

use std::collections::BTreeMap;

use plan::{Latency, PLAN, ROUNDS};
use run::{Measured, Services};

/// What one side does, as its process receives it.
#[derive(Debug, Clone)]
struct Work {
    url: String,
    endpoint: String,
    messages: usize,
    /// How many of a hundred messages fail.
    failing: usize,
    /// Receives at the same time.
    polls: usize,
    /// The most messages in flight, for the side that limits them.
    in_flight: usize,
    /// The URL of the dead-letter queue, for the side that needs one.
    dead_letters: String,
    /// Whether a bare loop asks for attributes.
    attributes: bool,
}

impl Work {
    fn arguments(&self) -> [String; 8] {
        [
            self.url.clone(),
            self.endpoint.clone(),
            self.messages.to_string(),
            self.failing.to_string(),
            self.polls.to_string(),
            self.in_flight.to_string(),
            self.dead_letters.clone(),
            self.attributes.to_string(),
        ]
    }

    fn from_arguments(arguments: &[String]) -> Self {
        let number = |index: usize| arguments[index].parse().unwrap();
        Self {
            url: arguments[0].clone(),
            endpoint: arguments[1].clone(),
            messages: number(2),
            failing: number(3),
            polls: number(4),
            in_flight: number(5),
            dead_letters: arguments[6].clone(),
            attributes: arguments[7].parse().unwrap(),
        }
    }

    /// Whether a message fails: its body is its number.
    fn fails(&self, body: &str) -> bool {
        body.parse::<usize>().unwrap() % 10 * 10 < self.failing
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let rest = || Work::from_arguments(&arguments[1..]);
    match arguments.first().map(String::as_str) {
        Some("proxy") => runtime_of_one_thread().block_on(proxy::run(&arguments[1])),
        Some("bare") => runtime().block_on(bare::run(rest())),
        Some("consumer") => runtime().block_on(consumer::run(rest())),
        Some("idle") => runtime().block_on(consumer::idle(rest())),
        Some("deciding") => deciding::run(),
        // `cargo bench` adds `--bench`; a word selects the cases whose names contain it, and nothing else is measured.
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

async fn compare(word: &str) {
    let services = Services::start();
    let idle = match word {
        "" => Some(run::idle(&services).await),
        _ => None,
    };
    let mut results: BTreeMap<usize, Vec<Measured>> = BTreeMap::new();
    for round in 0..ROUNDS {
        for (index, case) in PLAN.iter().enumerate() {
            if case.title().contains(word) && round < case.rounds() {
                let measured = run::measure(&services, case).await;
                results.entry(index).or_default().push(measured);
            }
        }
    }
    let medians = results
        .into_iter()
        .map(|(index, rounds)| (&PLAN[index], Measured::median(&rounds)))
        .collect::<Vec<_>>();
    for latency in [Latency::None, Latency::TenMilliseconds] {
        table::print(latency, &medians);
    }
    let Some(idle) = idle else {
        return;
    };
    println!("\nfailures decided, with the decision record in a file");
    println!("  {}", run::deciding().await);
    println!("\nan idle queue");
    println!("  {}", idle.ended().await);
}
