//! The retrier of programs: against services behind the fault proxy, with the AWS SDK's clients, and with the tools for queues.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod breaker;
mod cancellation;
mod client_errors;
mod client_retries;
mod ends;
mod faults;
mod records;
mod services;
mod swap_under_load;
mod swaps;
