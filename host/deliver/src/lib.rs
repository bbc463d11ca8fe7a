//! Delivers any number of entries in batches, and sends only the failed ones again.
//!
//! A [`Delivery`] takes a stream of entries and gives a stream of [outcomes](Outcome), one for each entry. It splits by count and size, keeps several requests in flight, and takes no more from its input than it can work on. Each failed entry has its own attempt and its own due time under a retry policy. Entries of one group stay in order.
//!
//! A [`Target`] is the service: a queue of SQS with the feature `sqs`, a table of DynamoDB with the feature `dynamodb`, a stream of Firehose with the feature `firehose`, or one of your own.
//!
//! ```
//! use backstop_core::policy::FullJitter;
//! use backstop_deliver::{Delivery, EntryResult, Limits, RequestError, Target};
//!
//! struct Shelf;
//!
//! impl Target for Shelf {
//!     type Entry = u32;
//!     type Receipt = ();
//!     fn source(&self) -> &str { "shelf" }
//!     fn limits(&self) -> Limits { Limits { entries: 10, bytes: 40, entry_bytes: 4 } }
//!     fn size(&self, _: &u32) -> usize { 4 }
//!     async fn send(&self, entries: &[u32]) -> Result<Vec<EntryResult<()>>, RequestError> {
//!         Ok(vec![EntryResult::Delivered(()); entries.len()])
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let delivery = Delivery::new(Shelf).policy(FullJitter::default().max_attempts(8));
//! let report = delivery.send_iter(0..1_000).await?;
//! assert_eq!(report.counts.delivered, 1_000);
//! assert!(report.undelivered.is_empty());
//! # Ok(()) }
//! ```

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
