//! Writes what the other benchmarks have measured as one report: `target/bench/report.md`, with pictures beside it, and `report.json`.
//!
//! `make bench` runs it last. A benchmark that has not run is named as missing.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark that can't go on fails"
)]

mod dollars;
mod losses;
mod machine;
mod markdown;
mod picture;

use tests_benches::{Chapter, folder, read};

/// The benchmarks in the order of the report.
const CHAPTERS: [&str; 17] = [
    "decision",
    "languages",
    "throughput",
    "growth",
    "packages",
    "scale",
    "consumer",
    "failure",
    "waiting",
    "page",
    "traces",
    "lambda",
    "deliver",
    "redrive",
    "idempotency",
    "retrier",
    "swaps",
];

fn main() {
    let (mut chapters, mut missing): (Vec<Chapter>, Vec<&str>) = (Vec::new(), Vec::new());
    for name in CHAPTERS {
        match read(name) {
            Some(chapter) => chapters.push(chapter),
            None => missing.push(name),
        }
    }
    chapters.extend(dollars::chapter(&chapters));
    let machine = machine::this();
    let folder = folder();
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    for (name, svg) in chapters.iter().flat_map(picture::of) {
        write(&name, svg);
    }
    let json = serde_json::json!({"machine": machine, "missing": missing, "chapters": chapters});
    write(
        "report.json",
        serde_json::to_string_pretty(&json).unwrap() + "\n",
    );
    write("report.md", markdown::report(&machine, &missing, &chapters));
    println!("{}", folder.join("report.md").display());
}
