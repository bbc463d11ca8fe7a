#![doc = include_str!("../README.md")]

#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings;
#[doc(hidden)]
#[rustfmt::skip]
pub mod outage_bindings;
#[cfg(any(
    test,
    all(feature = "arena", target_arch = "wasm32", target_os = "unknown")
))]
mod arena;
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
