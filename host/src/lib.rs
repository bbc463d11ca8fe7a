//! Backstop decides what happens to a failed message, and makes it happen.

pub mod author;
pub mod background_writer;
pub mod cli;
pub mod clock;
pub mod config;
pub mod consumer;
pub mod control;
pub mod dead_letter;
pub mod decider;
pub mod decision;
pub mod doctor;
pub mod exporter;
pub mod failure;
pub mod fallback;
pub mod handler;
mod invocation;
pub mod lambda;
pub mod log;
pub mod mistake;
pub mod policy;
pub mod queue;
pub mod record;
pub mod service;
pub mod shadow;
pub mod telemetry;
mod text;
mod whole;
