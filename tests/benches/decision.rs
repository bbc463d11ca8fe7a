//! What a decision costs: in a fresh instance, in a live one, without WebAssembly, and compared with the smallest request to SQS.
//!
//! `make bench` runs it. The column to read is the median.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Failure;
use backstop_engine::{Limits, Payload, Sandbox};
use backstop_queue::{Queue, Sqs, VisibilityTimeout};
use backstop_tests::aws::{self, Queues};
use backstop_tests::emulator::fauxqs;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

fn failure() -> Failure {
    backstop_tests::failure("HTTP 503")
}

const SETTINGS: [(&str, &str); 2] = [("base", "2s"), ("max-attempts", "8")];

/// Instantiate, configure, classify, judge, delay, drop: what the host does for every failure.
#[divan::bench(args = backstop_engine::builtin::names(), sample_count = 1000, sample_size = 10)]
fn a_complete_decision_in_a_fresh_instance(bencher: Bencher, name: &str) {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = backstop_versions::load(&sandbox, name, &SETTINGS).unwrap();
    let (failure, payload) = (failure(), Arc::new(Payload::new("{}")));
    bencher.bench(|| {
        policy
            .evaluate(black_box(&failure), &payload)
            .answer
            .unwrap()
    });
}

/// The same without a pool of instances.
#[divan::bench(sample_count = 1000, sample_size = 10)]
fn a_complete_decision_without_the_pool(bencher: Bencher) {
    let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
    let policy = backstop_versions::load(&sandbox, "full-jitter", &SETTINGS).unwrap();
    let (failure, payload) = (failure(), Arc::new(Payload::new("{}")));
    bencher.bench(|| {
        policy
            .evaluate(black_box(&failure), &payload)
            .answer
            .unwrap()
    });
}

/// Classify, judge and delay in an existing instance.
#[divan::bench(sample_count = 1000, sample_size = 10)]
fn a_decision_in_a_live_instance(bencher: Bencher) {
    let limits = Limits {
        fuel: u64::MAX,
        time: Duration::from_secs(600),
        ..Limits::default()
    };
    let sandbox = Sandbox::new(limits).unwrap();
    let policy = backstop_versions::load(&sandbox, "full-jitter", &SETTINGS).unwrap();
    let (failure, payload) = (failure(), Arc::new(Payload::new("{}")));
    let mut session = policy.session(&payload);
    bencher.bench_local(|| session.evaluate(black_box(&failure)).unwrap());
}

/// The rule of full jitter as a Rust function, which parses the settings each time like the policy.
#[divan::bench(sample_count = 1000, sample_size = 100)]
fn the_same_rule_natively(bencher: Bencher) {
    use backstop_policy::{Settings, default_class, default_verdict, testing};
    let failure = backstop_policy::Failure {
        attempt: 3,
        random: 0.25,
        ..testing::failure("HTTP 503")
    };
    bencher.bench(|| {
        let settings = Settings::parse(black_box(SETTINGS)).unwrap();
        let class = default_class(black_box(&failure.error));
        let verdict = default_verdict(&failure, &class);
        (verdict, full_jitter::delay(&settings, &failure))
    });
}

/// An empty receive from an emulator on the loopback address: no request to SQS is cheaper.
#[divan::bench(sample_count = 500)]
fn the_smallest_request_to_sqs(bencher: Bencher) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let queue = runtime.block_on(async {
        let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
        Sqs::new(&aws::config(&queues.endpoint).await).queue(&queues.url)
    });
    bencher.bench_local(|| {
        let receive = queue.receive(1, Duration::ZERO, VisibilityTimeout::ZERO);
        runtime.block_on(receive).unwrap()
    });
}
