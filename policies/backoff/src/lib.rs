//! The rules of the built-in policies, the arithmetic of backoff and the default classification of errors.
//!
//! Plain Rust without dependencies and without WebAssembly. The policies use it, and so do the host's native policies and its fallback.

mod aws_sdk;
mod classify;
mod codes;
mod duration;
mod failed_attempt;
pub mod formula;
pub mod jitter;
pub mod pattern;
mod settings;
mod settings_error;
mod standard;
mod values;

pub use aws_sdk::AwsSdk;
pub use classify::{CODES, Class, classify, classify_status};
pub use codes::Codes;
pub use duration::{Milliseconds, ParseDurationError, format_duration, parse_duration};
pub use failed_attempt::FailedAttempt;
pub use settings::Settings;
pub use settings_error::SettingsError;
pub use standard::{LONGEST_DELAY, reason_if_permanent};
