//! Support for the tests of a host, in their process: policies as it loads them, the records of decisions, and Lambda's side of the retry handler.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

pub mod mapping;
pub mod records;
pub mod retries;
pub mod retry_world;

use std::sync::Arc;

use backstop_core::decision::Reach;
use backstop_core::failure::Milliseconds;
use backstop_decider::Journey;
use backstop_engine::{Limits, Sandbox};
use backstop_versions::{LivePolicy, PartSpec, PolicySpec, Source};

/// A built-in policy with these settings, in a sandbox of its own.
pub fn builtin<N: Into<String>, V: Into<String>>(
    name: &'static str,
    settings: impl IntoIterator<Item = (N, V)>,
) -> Arc<LivePolicy> {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let part = PartSpec {
        source: Source::builtin(name),
        settings: settings.into_iter().collect(),
    };
    LivePolicy::load(&sandbox, PolicySpec::Single(part)).unwrap()
}

/// The journey of a message that can be held for any time.
pub fn any_delay() -> Journey {
    Journey::direct(Reach::visibility(Milliseconds(u32::MAX), Milliseconds(0)))
}
