//! Recorded decisions, replayed with another policy.
//!
//! A record contains everything that its decision depended on, so the policy that made it gives the same decision again, byte for byte, on any machine. Replay compares it with the answer of another policy. [`Lines`] reads records, a [`Candidate`] is evaluated with each, a [`RecordedAnswer`] is what a policy answered, a [`Change`] is a difference between two answers, and a [`Report`] sums up. A [`Life`] has the records of one message. `host/docs/policies/replay.md` explains how records are compared.

mod answer;
mod candidate;
mod change;
mod delays;
mod known_ids;
mod life;
mod lines;
mod recorded;
mod replayed;
mod report;
mod run;
mod tally;

pub use answer::{NotComparable, RecordedAnswer};
pub use candidate::{Candidate, EvaluatedPolicy, QueuePolicy, Replay};
pub use change::Change;
pub use delays::{Delays, STEPS};
pub use known_ids::KnownIds;
pub use life::{Happened, Life, Step, Today};
pub use lines::{Line, LineRef, Lines, ReadError};
pub use report::{Group, NoRecord, Pair, Report, Sample, Unreadable};
