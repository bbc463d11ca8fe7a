//! The host: queues are consumed, events of Lambda are retried, and a configuration says how.
//!
//! The project's own programs and the library `backstop` are made of this crate, and it may change in any version.
//!
//! | module | content |
//! |---|---|
//! | [`Backstop`], [`config`] | what a host is to do, by methods, a file, flags and variables: one raw form, converted once |
//! | [`assembly`] | from a configuration to policies, shadows, deciders and the recorder |
//! | [`consumer`] | serves one queue |
//! | [`maintenance`] | when a queue is not polled, because its configuration says so |
//! | [`admin`] | answers operators, and asks other hosts |
//! | [`letters`] | what operators see of dead letters, and the runs that move them back |
//! | [`service`], [`run`] | consumers with all that belongs to them, from their start to their end |
//! | [`traces`] | spans are sent, as configuration and environment say |
//! | [`trial`] | a host in virtual time, for tests of workers |
//! | [`lambda`] | the retry handler for asynchronous Lambda functions |
//! | [`doctor`] | checks a configuration against what is deployed |
//! | [`iam`] | the IAM policy that a configuration needs |

pub mod admin;
pub mod assembly;
mod builder;
pub mod config;
pub mod consumer;
pub mod doctor;
mod exporter;
mod http_server;
pub mod iam;
#[cfg(feature = "idempotency")]
mod idempotency;
pub mod lambda;
pub mod letters;
pub mod maintenance;
pub mod run;
pub mod service;
pub mod traces;
pub mod trial;

use backstop_core::{clock, decision, failure, text};
use backstop_decider::shadow;
use backstop_handlers as handler;
use backstop_queue as queue;
use backstop_records as record;
use backstop_settle::{hold, waiting};
use backstop_telemetry as telemetry;

pub use builder::Backstop;
pub use exporter::ExporterError;

/// Policies: the sandbox they run in, and where they come from and how they change.
mod policy {
    pub(crate) use backstop_engine::*;
    pub(crate) use backstop_versions::*;
}
