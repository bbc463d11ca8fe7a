//! Simulates a policy for many messages, without a queue and without waiting.
//!
//! A [`timetable`] shows when messages that always fail are retried. The [`contention`] model measures how long clients take that compete for one row. The [`outage`] model compares a queue without and with a breaker. In all of them, the policy itself makes every decision, in its sandbox; time is a number, and all randomness comes from a seed.

pub mod contention;
mod evaluator;
pub mod outage;
mod rounded;
mod spread;
pub mod timetable;

pub use evaluator::{Evaluation, Evaluator, instance_kind};
pub use rounded::Rounded;
pub(super) use spread::nearest;
pub use spread::{Percentiles, Spread};
