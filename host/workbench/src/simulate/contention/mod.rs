//! Clients that all want to change the same row, and what their policies make of it.
//!
//! The [`model`] is that of the AWS Architecture Blog, "Exponential Backoff And Jitter". A [`sweep`] runs it for [`contender`]s side by side, over numbers of clients, many times each.

pub mod contender;
pub mod model;
pub mod sweep;

pub use contender::{Baseline, Contender};
pub use model::Network;
pub use sweep::{Cell, Sweep};
