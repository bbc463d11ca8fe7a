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
mod fill;
mod packages;
mod plan;
mod proxy;
mod run;
mod settled;
mod table;
mod work;
mod worker;

use std::collections::BTreeMap;

use plan::Case;
use run::{Measured, Services};
use table::Figures;
use tests_benches::{Better, Chapter, Figure, Table, Unit};

const THROUGHPUT: &str = "Full queues of fauxqs, an emulator of SQS, are emptied. Each side is a process of its own; the sides take turns. A bare loop receives ten messages and deletes them, in as many pollers as its row says, with the same SDK and the same allocator; a loop with attributes asks for all of them, as a loop does that counts receives or sends dead letters. `sqs-consumer` uses `handleMessageBatch` with batches of ten, boto3 a thread for each poller. Backstop is a library with a Rust function, or the `backstop` command with a worker behind HTTP, beside a bare loop that posts to the same worker, all messages of a batch at once. `1 thread` is one worker thread of tokio. Messages that fail are hidden for a minute: by one more request for each batch, or by the policy. A request for ten messages counts as a tenth for each. Seven rounds, with failures and on FIFO queues three.";

const GROWTH: &str =
    "As above, with one thing that grows. The loop asks for all attributes. Three rounds.";

/// What one side does, as its process receives it.
#[derive(Debug, Clone)]
struct Work {
    /// The queues' URLs, with commas between them.
    urls: String,
    endpoint: String,
    messages: usize,
    /// How many of a hundred messages fail.
    failing: usize,
    /// Receives at the same time.
    polls: usize,
    /// The most messages in flight, for the side that limits them.
    in_flight: usize,
    /// The URLs of the dead-letter queues, for the side that needs them.
    dead_letters: String,
    /// Whether a bare loop asks for attributes.
    attributes: bool,
    /// The URL of the worker, for the sides that post to one.
    worker: String,
    /// What a handler in another language does with each message.
    load: String,
}

impl Work {
    fn arguments(&self) -> [String; 10] {
        [
            self.urls.clone(),
            self.endpoint.clone(),
            self.messages.to_string(),
            self.failing.to_string(),
            self.polls.to_string(),
            self.in_flight.to_string(),
            self.dead_letters.clone(),
            self.attributes.to_string(),
            self.worker.clone(),
            self.load.clone(),
        ]
    }

    fn from_arguments(arguments: &[String]) -> Self {
        let number = |index: usize| arguments[index].parse().unwrap();
        Self {
            urls: arguments[0].clone(),
            endpoint: arguments[1].clone(),
            messages: number(2),
            failing: number(3),
            polls: number(4),
            in_flight: number(5),
            dead_letters: arguments[6].clone(),
            attributes: arguments[7].parse().unwrap(),
            worker: arguments[8].clone(),
            load: arguments[9].clone(),
        }
    }

    /// Its queues: their URLs and those of their dead-letter queues.
    fn queues(&self) -> impl Iterator<Item = (&str, &str)> {
        self.urls.split(',').zip(self.dead_letters.split(','))
    }

    /// Whether a message fails: its body is its number.
    fn fails(&self, body: &str) -> bool {
        body.trim_end().parse::<usize>().unwrap() % 10 * 10 < self.failing
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let rest = || Work::from_arguments(&arguments[1..]);
    match arguments.first().map(String::as_str) {
        Some("proxy") => runtime_of_one_thread().block_on(proxy::run(&arguments[1])),
        Some("worker") => runtime_of_one_thread().block_on(worker::run()),
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
    let cases = plan::plan();
    let mut results: BTreeMap<usize, Vec<Measured>> = BTreeMap::new();
    let rounds = cases.iter().map(Case::rounds).max().unwrap_or_default();
    for round in 0..rounds {
        for (index, case) in cases.iter().enumerate() {
            if case.title().contains(word) && round < case.rounds() {
                let measured = run::measure(&services, case).await;
                results.entry(index).or_default().push(measured);
            }
        }
    }
    let results: Vec<_> = results
        .into_iter()
        .map(|(index, rounds)| (cases[index], Figures::of(&rounds)))
        .collect();
    let of = |is_in: fn(&Case) -> bool| -> Vec<_> {
        let results = results.iter().filter(|(case, _)| is_in(case));
        results.copied().collect()
    };
    let compared = of(|case| !case.grows() && case.language.is_none());
    let mut throughput = Chapter::new("throughput", "Consuming", THROUGHPUT);
    table::add(&mut throughput, &compared);
    table::add_ratios(&mut throughput, &compared);
    let mut growth = Chapter::new("growth", "Growth", GROWTH);
    table::add(&mut growth, &of(Case::grows));
    let mut packages = Chapter::new("packages", packages::TITLE, packages::ABOUT);
    let in_packages = of(|case| case.language.is_some());
    table::add(&mut packages, &in_packages);
    packages::add_ratios(&mut packages, &in_packages);
    // A part replaces no report of the whole.
    if in_packages.len() == packages::cases().len() {
        packages.write();
    }
    let Some(idle) = idle else {
        return;
    };
    throughput.add(at_rest(&run::deciding().await, &idle.ended().await));
    throughput.write();
    growth.write();
}

/// What the consumer does without being compared.
fn at_rest(deciding: &str, idle: &str) -> Table {
    let number = |text: &str| Figure::exact(text.split(' ').next().unwrap().parse().unwrap());
    let mut table = Table::new("A host by itself")
        .column("number", Unit::Number, Better::Less)
        .not_drawn();
    let (rate, processor) = deciding.split_once(' ').unwrap();
    table.ours(
        "failures decided in fresh instances a second, with the decision record in a file",
        [number(rate)],
    );
    table.ours("processor time of one, µs", [number(processor)]);
    table.ours("requests of an idle queue in 59 s", [number(idle)]);
    table
}
