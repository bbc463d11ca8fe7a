//! What a policy costs in each language: for its author, until a test passes; for its host, for a decision.
//!
//! `make bench` runs it. The toolchains are there already; what they keep between builds is warm after the first round, which is not shown.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time")]

use std::time::Instant;

use backstop_tests::backstop::text;
use backstop_tests::toolchain::Author;
use backstop_workbench::Language;
use serde_json::Value;

#[tokio::main]
async fn main() {
    println!(
        "from `policy new` to a passing `policy test`, and a decision of the policy that it makes"
    );
    println!(
        "{:<12} {:>14} {:>10} {:>12} {:>10} {:>10} {:>12} {:>10}",
        "language", "new to tested", "size", "fresh", "live", "fuel", "memory", "compiling"
    );
    for language in Language::ALL {
        let first = Author::new(&language.to_string()).await;
        tested(&first).await;
        let started = Instant::now();
        let author = Author::new(&language.to_string()).await;
        tested(&author).await;
        let took = started.elapsed();
        let measured = author
            .backstop(&["policy", "bench", ".", "--for", "4s", "--json"])
            .await;
        let measured: Value = serde_json::from_slice(&measured.stdout).unwrap();
        let costs = &measured[0];
        let number = |pointer: &str| costs.pointer(pointer).and_then(Value::as_f64).unwrap();
        let size = std::fs::metadata(author.component()).unwrap().len();
        println!(
            "{:<12} {:>12.1} s {:>6} KiB {:>9.1} µs {:>7.1} µs {:>10} {:>8} KiB {:>7.0} ms",
            language.to_string(),
            took.as_secs_f64(),
            size >> 10,
            number("/fresh/median-us"),
            number("/live/median-us"),
            number("/fuel"),
            number("/memory") / 1024.0,
            number("/compiling-us") / 1e3,
        );
    }
}

async fn tested(author: &Author) {
    let ended = author.backstop(&["policy", "test"]).await;
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{out}{err}");
}
