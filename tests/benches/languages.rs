//! What a policy costs in each language: for its author, until a test passes; for its host, for a decision.
//!
//! `make bench` runs it. The toolchains are there already; what they keep between builds is warm after the first round, which is not shown.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time")]

use std::time::Instant;

use backstop_tests::backstop::text;
use backstop_tests::toolchain::Author;
use backstop_workbench::Language;
use serde_json::Value;
use tests_benches::{Better, Chapter, Figure, Table, Unit};

#[tokio::main]
async fn main() {
    let mut table = Table::new("Full jitter in each language")
        .column("a decision, fresh", Unit::Microseconds, Better::Less)
        .column("a decision, live", Unit::Microseconds, Better::Less)
        .column("new to tested", Unit::Seconds, Better::Less)
        .column("size", Unit::Kibibytes, Better::Less)
        .column("fuel", Unit::Number, Better::Less)
        .column("memory", Unit::Kibibytes, Better::Less)
        .column("compiling", Unit::Milliseconds, Better::Less);
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
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let size = size as f64;
        let figures = [
            number("/fresh/median-us"),
            number("/live/median-us"),
            took.as_secs_f64(),
            size / 1024.0,
            number("/fuel"),
            number("/memory") / 1024.0,
            number("/compiling-us") / 1e3,
        ];
        table.ours(language.to_string(), figures.map(Figure::exact));
    }
    let mut chapter = Chapter::new(
        "languages",
        "Languages",
        "One policy in each language. \"New to tested\" is the time from `backstop policy new` to a passing `backstop policy test`, with the toolchain installed and its caches warm. A decision is a median of `backstop policy bench`, in a fresh instance and in a live one. A policy is compiled once, at a start or a swap.",
    );
    chapter.add(table);
    chapter.write();
}

async fn tested(author: &Author) {
    let ended = author.backstop(&["policy", "test"]).await;
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{out}{err}");
}
