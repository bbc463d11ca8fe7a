//! The parts of a retry decision: the failure, the policy's answer, the bounds, the fallback, and the decision; and the built-in policies in Rust.
//!
//! This crate runs no WebAssembly and does no I/O. [`clock`] is the only module that reads the machine's clocks.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod call;
pub mod clock;
pub mod decision;
pub mod examples;
pub mod failure;
pub mod idempotency;
pub mod lock;
pub mod lost;
mod names;
pub mod network;
pub mod policy;
pub mod rate;
pub mod retry_after;
pub mod settings;
pub mod share;
mod shown;
pub mod text;

pub use decision::fallback;
