//! The retrier of programs: with the AWS SDK's clients, and with the tools for queues.

mod client_retries;
mod records;
mod swaps;
