//! The decision record: one JSON line for each decision, with everything that is needed to repeat the decision.
//!
//! `host/docs/operate/decision-record.md` documents every field.
//!
//! ```no_run
//! use backstop::record::DecisionRecord;
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

pub use backstop_records::{
    Aspect, DecisionRecord, End, EventRecord, LifeEvent, LogLine, MessageIds, OtherIds, PartName,
    Recorded, ShadowOutcome, Shadowed, Skipped, WokenBy,
};
