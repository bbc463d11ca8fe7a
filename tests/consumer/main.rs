//! The consumer of a queue: start, handlers, decisions, shadow policies, faults and the end of the process.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod breaker;
mod clocks;
mod consumer;
mod dashboard;
mod elsewhere;
mod endings;
mod faults;
mod gate;
mod groups;
mod handlers;
mod heartbeat;
mod hold_emulators;
mod hold_faults;
mod hold_strangers;
mod hold_world;
mod holding;
mod idempotency;
mod in_memory;
mod kept_waiting;
mod limit_each;
mod maintenance;
mod metrics;
mod operating;
mod operating_document;
mod outages;
mod polling;
mod queue;
mod reconsider;
mod reconsider_commands;
mod reconsider_hops;
mod refused_letters;
mod reload;
mod shadow;
mod startup;
mod supervisor;
mod trial;
mod virtual_time;
mod waiting;
mod waiting_commands;
mod waiting_hostile;
mod why_commands;
