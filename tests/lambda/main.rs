//! The Lambda retry handler: retries end to end, its deployment, and the functions of the examples.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod deployment;
mod functions;
mod hold_in_memory;
mod idempotency;
mod metrics;
mod powertools;
mod retrier;
mod retries;
mod retries_in_memory;
mod traces;
