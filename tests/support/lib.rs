//! Support for the tests: emulators as child processes, the `backstop` command, a fault proxy, an HTTP worker, hostile policies.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

pub mod aws;
pub mod backstop;
pub mod bench;
pub mod compiler;
pub mod documents;
pub mod emulator;
pub mod exposition;
pub mod idempotency;
pub mod lambda;
pub mod npm;
pub mod once;
pub mod policies;
pub mod preview_1;
pub mod process;
pub mod proxy;
pub mod python;
pub mod refusal;
pub mod registry;
pub mod runtime_api;
pub mod runtimes;
pub mod shell;
pub mod terminal;
pub mod testing;
pub mod tls;
pub mod toolchain;
pub mod worker;

use std::num::NonZeroU32;
use std::time::Duration;

use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp};
use mimalloc::MiMalloc;
use tokio::time::{Instant, sleep};

/// The allocator of the `backstop` command, for the tests, for the benchmarks, and for what these compare with Backstop.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Waits until `condition` holds; fails with its description after a time that is long enough for a busy machine.
pub async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let limit = Duration::from_secs(180);
    let end = Instant::now() + limit;
    while !condition().await {
        assert!(Instant::now() < end, "waited for {limit:?} in vain: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A third failed attempt with this error code; the test changes the fields that matter to it.
pub fn failure(code: &str) -> Failure {
    Failure {
        message_id: "c9b7a3d0-0000-4000-8000-000000000001".to_owned(),
        source: "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned(),
        attempt: NonZeroU32::MIN.saturating_add(2),
        age: Milliseconds(5_000),
        failed_at: Timestamp(1_767_225_600_000),
        previous_delay: Some(Milliseconds(2_000)),
        error: Error::new(code, "as told"),
        attributes: vec![("tenant".to_owned(), "t-1".to_owned())],
        random: 0.25,
    }
}
