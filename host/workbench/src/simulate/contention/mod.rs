//! Clients that compete to change the same row, each with the retry policy under test.
//!
//! The [`model`] is that of the AWS Architecture Blog, "Exponential Backoff And Jitter". A [`sweep`] runs it many times for each [`contender`] and each number of clients.

pub mod contender;
pub mod model;
pub mod sweep;

pub use contender::{Baseline, Contender};
pub use model::Network;
pub use sweep::{Cell, Sweep};
