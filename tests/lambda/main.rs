//! The Lambda retry handler: retries end to end, its deployment, and the functions of the examples.

mod deployment;
mod functions;
mod hold_in_memory;
mod idempotency;
mod retrier;
mod retries;
mod retries_in_memory;
