//! What the retrier costs a program, compared with backon, tower's `Retry` and a loop written by hand: time for each call, memory for each waiting call, dependencies, and the requests that reach a dependency which is down.
//!
//! `make bench` runs it. The sides take turns.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod calls;
mod closures;
mod memory;
mod outage;
mod sides;

use tests_benches::Chapter;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    let mut chapter = Chapter::new(
        "retrier",
        "The retrier",
        "Each side calls a function at most three times, with delays from 50 ms. The clock is paused, so that no delay counts. A policy evaluates each failure of Backstop's. 15 rounds in turns.",
    );
    chapter.add(calls::compare());
    chapter.add(memory::compare());
    chapter.add(outage::compare());
    chapter.add(closures::compare());
    chapter.write();
}
