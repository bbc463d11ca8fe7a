//! The decision record: one JSON line for each decision, with everything that is needed to repeat the decision. Lines with the field `event` are [`EventRecord`]s: what became of a message afterwards.
//!
//! `host/docs/operate/decision-record.md` documents every field.
//!
//! ```no_run
//! use backstop_records::DecisionRecord;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for line in std::fs::read_to_string("decisions.jsonl")?.lines() {
//!     // The others are events, such as a success after a failure.
//!     if let Ok(record) = serde_json::from_str::<DecisionRecord>(line) {
//!         let failure = &record.failure;
//!         println!("{}, attempt {}: {:?}", failure.message_id, failure.attempt, record.decision.action);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod details;
mod file;
mod life_event;
mod lines;
mod record;
mod recorder;
mod rotation;
mod shadowed;

pub use backstop_core::policy::{LogLine, PartName};
pub use details::KEPT_DETAILS;
pub use life_event::{EventRecord, LifeEvent, MessageIds, OtherIds, Recorded, WokenBy};
pub use record::{DecisionRecord, End, Observer};
pub use recorder::{Destination, RecordError, Recorder};
pub use rotation::{Rotation, files_of};
pub use shadowed::{Aspect, ShadowOutcome, Shadowed, Skipped};
