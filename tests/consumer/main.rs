//! The consumer of a queue: start, handlers, decisions, shadow policies, faults and the end of the process.

mod consumer;
mod elsewhere;
mod endings;
mod faults;
mod gate;
mod handlers;
mod heartbeat;
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
mod refused_letters;
mod shadow;
mod startup;
mod trial;
mod waiting;
mod waiting_commands;
mod waiting_hostile;
mod why_commands;
