//! Write a Backstop policy in Rust: implement [`Policy`], name it in [`export!`], build for `wasm32-unknown-unknown`. `backstop policy new NAME --lang rust` makes a crate that does, with this one beside it.
//!
//! ```
//! use backstop_policy::{Duration, ErrorClass, Failure, Policy};
//!
//! /// Waits a minute for each attempt made.
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
//! A policy that differs from the four of `policies/` in its delay alone needs one function and [`export_delay!`].

#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings;
mod durations;
mod policy;
mod standard;
pub mod testing;

pub use std::time::Duration;

pub use backstop_backoff::{
    Class, Milliseconds, Settings, SettingsError, classify, format_duration, jitter, parse_duration,
};
pub use bindings::backstop::policy::types::{Error, ErrorClass, Failure, Verdict};
/// What a policy may ask of the host: a line in its log, and a look into the message that failed. Both trap outside of WebAssembly.
pub use bindings::backstop::policy::{log, payload};
pub use policy::{Policy, default_class, default_verdict};
#[doc(hidden)]
pub use policy::{exported::Exported, start, whole_milliseconds};
pub use standard::{Delay, Standard};
