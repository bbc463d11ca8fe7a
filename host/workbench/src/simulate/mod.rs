//! What a policy does to many messages at once, without a queue and without waiting.
//!
//! A [`timetable`] says when the retries of messages come that always fail. The [`contention`] model says how long clients take that get into each other's way. Every decision of both is made by the policy itself, in its sandbox; time is a number, and all randomness comes from a seed.

pub mod contention;
mod evaluator;
mod span;
mod spread;
pub mod timetable;

pub use evaluator::{Evaluation, Evaluator, instance_kind};
pub use span::Rounded;
pub(super) use spread::nearest;
pub use spread::{Percentiles, Spread};
