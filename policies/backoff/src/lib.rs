//! The arithmetic of backoff and the default classification of errors.
//!
//! Plain Rust without dependencies and without WebAssembly. The policies use it, and the host's fallback calls it natively.

mod classify;
mod duration;
pub mod jitter;
mod settings;

pub use classify::{CODES, Class, classify, classify_status};
pub use duration::{Milliseconds, ParseDurationError, format_duration, parse_duration};
pub use settings::{Settings, SettingsError};
