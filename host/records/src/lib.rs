//! The decision record: one JSON line for each decision, with everything that is needed to repeat the decision.
//!
//! `host/docs/decision-record.md` documents every field.
//!
//! ```no_run
//! use backstop_records::DecisionRecord;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for line in std::fs::read_to_string("decisions.jsonl")?.lines() {
//!     let record: DecisionRecord = serde_json::from_str(line)?;
//!     let failure = &record.failure;
//!     println!("{}, attempt {}: {:?}", failure.message_id, failure.attempt, record.decision.action);
//! }
//! # Ok(())
//! # }
//! ```

mod details;
mod file;
mod record;
mod recorder;
mod rotation;
mod shadowed;

pub use backstop_core::policy::{LogLine, PartName};
pub use details::KEPT_DETAILS;
pub use record::{DecisionRecord, End, Observer};
pub use recorder::{Destination, RecordError, Recorder};
pub use rotation::{Rotation, files_of};
pub use shadowed::{Aspect, ShadowOutcome, Shadowed, Skipped};
