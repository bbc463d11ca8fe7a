#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | To | use |
//! |---|---|
//! | retry a function | [`Retrier::run`], [`Retrier::run_with`] for one that changes a value |
//! | end a call for an error, or retry a value | [`Error::permanent`], [`Run::retry_if`], [`Run::retry_if_ok`] |
//! | choose the policy, limits and a clock | [`RetrierBuilder`] |
//! | describe errors of your own | [`Describe`], [`Run::describe`] |
//! | end a call in time | [`Run::deadline`], [`Deadline`], [`Run::attempt_timeout`] |
//! | limit the retries of many calls together | [`budget`] |
//! | fail at once while a dependency is down | [`breaker`] |
//! | limit how many attempts run at once | [`Bulkhead`] |
//! | react to the end of a call | [`RetryError`] |
//! | watch calls | [`Observer`], [`telemetry`] |
//! | send metrics to CloudWatch from a Lambda function | [`Emf`] |
//! | write a policy in Rust | [`Policy`], [`policy`] |
//! | record decisions for `backstop policy replay` | [`RetrierBuilder::record`] |
//! | test without waiting | [`TestClock`] |
//! | retry calls of the AWS SDK (feature `aws`) | `aws`, for the client's own retries |
//! | retry HTTP calls (features `reqwest`, `hyper`) | `success`, for responses with an error status |
//! | retry the requests of a tower service (feature `tower`) | `tower` |
//! | change the policy while the program runs (features `wasm`, `s3`, `oci`) | `wasm` |
//!
//! # What a call costs
//!
//! A call that succeeds at once allocates nothing, takes no lock, and reads no clock unless it has a deadline or a breaker, which has a lock too. Each attempt has a `tracing` span of the level DEBUG.
// So that docs.rs says which feature has an item.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
#[cfg(feature = "aws")]
pub mod aws;
pub mod breaker;
pub mod budget;
mod builder;
mod bulkhead;
mod decider;
mod describe;
mod emf;
mod error;
mod event;
#[cfg(feature = "aws")]
mod inside;
mod into_policy;
mod lent;
mod record;
mod refusal;
mod remembered;
mod retrier;
mod run;
#[doc(hidden)]
pub mod stepped;
pub mod telemetry;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use attempt::Attempt;
pub use backstop_core::backoff::Backoff;
pub use backstop_core::breaker::{State as BreakerState, Status as BreakerStatus};
pub use backstop_core::decision;
pub use backstop_core::failure::{self, Error};
pub use backstop_core::policy::standard::*;
pub use backstop_core::policy::{
    self, AwsSdk, LogLine, PartName, Policy, PolicyError, Profile, SettingsError,
};
pub use backstop_records::{KEPT_DETAILS, RecordError, Recorder};
pub use backstop_time::{Clock, Deadline, Sleep, TestClock, TokioClock};
pub use breaker::{Breaker, BreakerSettings};
pub use budget::{Budget, BudgetSettings};
pub use builder::{BuildError, RetrierBuilder};
pub use bulkhead::Bulkhead;
#[cfg(feature = "reqwest")]
pub use describe::ReqwestError;
pub use describe::{By, ByTrait, Describe, Describer, describe_by_causes};
#[cfg(feature = "hyper")]
pub use describe::{HttpResponse, RequestError, success};
pub use emf::Emf;
pub use error::{End, Ended, RetryError};
pub use event::{Evaluated, Event, Observer};
#[cfg(feature = "wasm")]
pub use into_policy::BySpec;
pub use into_policy::{ByName, ByValue, IntoPolicy, PolicyChoice};
pub use lent::Lent;
pub use retrier::{FALLBACK_ATTEMPTS, Retrier};
pub use run::{Always, Condition, RetryIf, RetryIfOk, Run};

/// Compiles the examples of the document, with the features that they use. The tests of the workspace have these.
#[cfg(all(doctest, feature = "anyhow", feature = "reqwest", feature = "wasm"))]
#[doc = include_str!("../../docs/rust/retrier.md")]
struct Documentation;
