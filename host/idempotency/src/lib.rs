#![doc = include_str!("../README.md")]
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
// So that docs.rs says which feature has an item.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod call_time;
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
