//! The consumer of a queue: start, handlers, decisions, shadow policies, faults and the end of the process.

mod consumer;
mod elsewhere;
mod endings;
mod faults;
mod handlers;
mod hold_emulators;
mod hold_faults;
mod hold_world;
mod holding;
mod idempotency;
mod in_memory;
mod polling;
mod queue;
mod reconsider;
mod reconsider_commands;
mod reconsider_hops;
mod shadow;
mod startup;
mod waiting;
mod waiting_commands;
mod waiting_hostile;
mod why_commands;
