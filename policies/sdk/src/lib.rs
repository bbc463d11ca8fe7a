//! Write a Backstop policy in Rust: implement [`Policy`], pass the type to [`export!`], and build for `wasm32-unknown-unknown`. `backstop policy new NAME --lang rust` creates such a crate, with a copy of this one.
//!
//! ```
//! use backstop_policy::{Duration, ErrorClass, Failure, Policy};
//!
//! /// Waits one more minute after each attempt.
//! struct Patient;
//!
//! impl Policy for Patient {
//!     fn configure(_settings: &[(String, String)]) -> Result<Self, String> {
//!         Ok(Self)
//!     }
//!
//!     fn delay(&self, failure: &Failure, _class: &ErrorClass) -> Duration {
//!         Duration::from_secs(60) * failure.attempt
//!     }
//! }
//!
//! backstop_policy::export!(Patient);
//! ```
//!
//! A policy that differs from the built-in ones only in its delay needs one function and [`export_delay!`].

#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings;
#[doc(hidden)]
#[rustfmt::skip]
pub mod outage_bindings;
mod conversions;
mod durations;
mod policy;
mod standard;
pub mod testing;

pub use std::time::Duration;

pub use backstop_backoff::{
    AwsSdk, Class, FailedAttempt, Milliseconds, Settings, SettingsError, classify, format_duration,
    formula, jitter, parse_duration,
};
pub use bindings::backstop::policy::types::{Error, ErrorClass, Failure, Verdict};
/// The host's functions: writing to its log, and reading the body of the failed message. Both trap outside of WebAssembly.
pub use bindings::backstop::policy::{log, payload};
pub use policy::{Policy, default_class, default_verdict};
#[doc(hidden)]
pub use policy::{exported::Exported, start, whole_milliseconds};
pub use standard::{Delay, Standard};
