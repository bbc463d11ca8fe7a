//! Traces, as a collector gets them from the command.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod attempts;
mod collectors;
mod handlers;
mod journey;
mod world;
