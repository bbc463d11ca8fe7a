//! Recorded decisions put before a policy: what it would have decided otherwise.
//!
//! A record holds all that a decision was made of, so that the policy of that time says the same again, byte for byte, on any machine; what another policy says is compared with it. [`Lines`] reads records, a [`Candidate`] is asked about each, [`RecordedAnswer`] is what a policy answered, and a [`Report`] sums up. `host/docs/replay.md` says how records are compared.

mod answer;
mod candidate;
mod change;
mod delays;
mod lines;
mod recorded;
mod replayed;
mod report;
mod run;
mod tally;

pub use answer::RecordedAnswer;
pub use candidate::{Candidate, EvaluatedPolicy};
pub use change::Change;
pub use delays::{Delays, STEPS};
pub use lines::{LineRef, Lines, ReadError};
pub use replayed::NotComparable;
pub use report::{Group, NoRecord, Pair, Report, Sample, Unreadable};
pub use run::Replay;
