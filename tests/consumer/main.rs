//! The consumer of a queue: start, handlers, decisions, shadow policies, faults and the end of the process.

mod consumer;
mod endings;
mod faults;
mod handlers;
mod holding;
mod in_memory;
mod polling;
mod queue;
mod shadow;
mod startup;
