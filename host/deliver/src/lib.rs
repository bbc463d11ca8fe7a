#![doc = include_str!("../README.md")]
// So that docs.rs says which feature has an item.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "aws")]
mod aws;
mod deliveries;
mod delivery;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
#[cfg(feature = "firehose")]
pub mod firehose;
mod held;
#[cfg(test)]
mod laws_tests;
#[cfg(test)]
mod memory_tests;
mod outcome;
mod results;
mod schedule;
#[cfg(test)]
mod service_tests;
#[cfg(feature = "sqs")]
pub mod sqs;
mod target;

#[cfg(feature = "aws")]
pub use aws::OpenError;
pub use backstop_core::failure::{self, Error};
pub use backstop_core::policy::standard::*;
pub use backstop_core::policy::{self, Policy};
pub use deliveries::Deliveries;
pub use delivery::{AfterFailure, Delivery};
pub use outcome::{Counts, Outcome, Report, Status, Undelivered};
pub use target::{Duplicates, EntryResult, Group, Limits, RequestError, Target};

/// Compiles the examples of the document.
#[cfg(all(doctest, feature = "sqs"))]
#[doc = include_str!("../../docs/rust/deliver.md")]
struct Documentation;
