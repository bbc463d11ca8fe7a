//! The retrier of programs: against services behind the fault proxy, with the AWS SDK's clients, and with the tools for queues.

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
