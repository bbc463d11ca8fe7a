//! Backstop decides what happens to a failed message, and makes it happen.

pub mod clock;
pub mod config;
pub mod consumer;
pub mod control;
pub mod dead_letter;
pub mod decider;
pub mod doctor;
pub mod exporter;
mod function_name;
pub mod handler;
mod invocation;
pub mod lambda;
mod observers;
pub mod policy;
pub mod queue;
pub mod record;
mod retry_after;
pub mod service;
pub mod shadow;
pub mod telemetry;

pub use backstop_core::{decision, failure, fallback, settings, text};
