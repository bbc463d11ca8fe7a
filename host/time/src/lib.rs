//! The time, as a program reads it and waits in it: [`Clock`], [`Deadline`], and a [`TestClock`] that lets nothing wait.
//!
//! The retrier and idempotent work share them, so that one clock and one deadline serve both.

mod clock;
mod deadline;
mod test_clock;

pub use clock::{Clock, Sleep, TokioClock};
pub use deadline::Deadline;
pub use test_clock::TestClock;
