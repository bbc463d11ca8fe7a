//! Runs work once for each idempotency key, in the record formats of Powertools for AWS Lambda.
//!
//! Messages of SQS and events of Lambda are delivered at least once. Work with an effect that must not happen twice is given a key, and a table remembers which keys are done:
//!
//! ```
//! use backstop_idempotency::{Idempotency, MemoryStore};
//!
//! # async fn charge() -> Result<u64, std::io::Error> { Ok(250) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In production: `DynamoStore::new(client, "idempotency")`, with the feature `dynamodb`.
//! let idempotency = Idempotency::builder(MemoryStore::default(), "payments.charge").build()?;
//!
//! let receipt = idempotency.once("order-7", || async { charge().await }).await?;
//! assert_eq!(receipt.result, 250);
//!
//! // The second call returns the stored result and does nothing.
//! let again = idempotency.once("order-7", || async { charge().await }).await?;
//! assert!(again.repeated);
//! # Ok(())
//! # }
//! ```
//!
//! A call costs two writes, a repeated one a single write that is refused. While the work runs, its record has a lease. The lease of a crashed owner ends, and another one takes over; an owner that comes back too late is stopped and cannot overwrite the other's result.
//!
//! # Map
//!
//! | To | use |
//! |---|---|
//! | run work once | [`Idempotency::once`], [`Idempotency::once_for`] |
//! | find the key in an event | [`Path`], [`Event`], [`IdempotencyBuilder::key`] |
//! | refuse a repeat with another payload | [`IdempotencyBuilder::validate`] |
//! | end in time | [`Once::deadline`] |
//! | wait for another owner's work | [`Once::or_wait`] |
//! | say what happens to work whose owner crashed | [`OnUnknown`] |
//! | share a table with Powertools | [`RecordFormat`] |
//! | react to errors, or let a policy do so | [`OnceError`] |
//! | keep records in DynamoDB (feature `dynamodb`) | `DynamoStore` |
//! | count what calls find | [`IdempotencyBuilder::observe`] |
//! | test without waiting | [`MemoryStore`], [`TestClock`] |

mod builder;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod error;
mod event;
mod format;
#[cfg(feature = "jmespath")]
mod jmespath;
mod json;
mod key;
mod lease;
mod memory;
mod observed;
mod once;
mod settings;
mod settle;
pub mod store;
#[cfg(test)]
mod test_world;
mod wait;

#[cfg(feature = "dynamodb")]
pub use aws_sdk_dynamodb;
pub use backstop_core::failure::{self, Error};
pub use backstop_core::idempotency::{OnMissingKey, OnUnknown, RecordFormat};
pub use backstop_time::{Clock, Deadline, Sleep, TestClock, TokioClock};
pub use builder::{BuildError, Idempotency, IdempotencyBuilder};
#[cfg(feature = "dynamodb")]
pub use dynamodb::{Attributes, DynamoStore, TableError};
pub use error::{LeaseEnd, OnceError};
pub use event::{Event, Path, PathError, SearchError};
pub use format::HashFunction;
pub use json::JsonError;
pub use key::{Key, KeyError};
pub use memory::MemoryStore;
pub use observed::Observed;
pub use once::{Completed, Once};
pub use store::{Store, StoreError};

/// Compiles the examples of the document.
#[cfg(all(doctest, feature = "dynamodb"))]
#[doc = include_str!("../../docs/rust/idempotency.md")]
struct Documentation;
