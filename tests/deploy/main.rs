//! The deployments in `examples/operate` are valid, and a host runs with exactly what they say.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod checkers;
mod compose;
mod container;
mod ecs;
mod five_minutes;
mod github;
mod iam;
mod kubernetes;
mod pods;
mod terraform;
