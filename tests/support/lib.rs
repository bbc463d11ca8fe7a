//! What the tests stand on: emulators started as child processes, the `backstop` command, a fault proxy, an HTTP worker, hostile policies.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't be set up fails"
)]

pub mod aws;
pub mod backstop;
pub mod emulator;
pub mod lambda;
pub mod policies;
pub mod proxy;
pub mod worker;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Waits until `condition` holds; fails after 60 s, saying what was waited for.
pub async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < end, "waited for 60 s in vain: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}
