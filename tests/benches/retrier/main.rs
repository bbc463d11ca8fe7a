//! What the retrier costs a program, compared with backon, tower's `Retry` and a loop written by hand: time for each call, memory for each waiting call, dependencies, and the requests that reach a dependency which is down.
//!
//! `make bench` runs it. The sides take turns; the best round of each counts.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod calls;
mod closures;
mod memory;
mod outage;
mod sides;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    calls::compare();
    memory::compare();
    outage::compare();
    closures::compare();
}
