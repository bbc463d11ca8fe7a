//! From a failure to a decision. A [`Decider`] evaluates the live policy of a queue and turns its answer into a [`Decided`]; metrics, the log, the records and the [`shadow`] see it.

mod decided;
mod decider;
mod decision_threads;
mod events;
mod observers;
pub mod shadow;

pub use decided::{Decided, DecidedFailure, Journey, PayloadParts, RememberedFailure};
pub use decider::Decider;
pub use events::{Events, other_ids};

use backstop_core::clock;
use backstop_core::{decision, failure, text};
use backstop_records as record;
use backstop_telemetry as telemetry;

/// Policies: the sandbox they run in, and where they come from and how they change.
mod policy {
    pub(crate) use backstop_engine::*;
    pub(crate) use backstop_versions::*;
}
