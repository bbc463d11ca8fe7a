//! Policies in Rust, which need no WebAssembly: the trait, and the built-in policies as types and by name.
//!
//! The built-in components use the same code, so that both give the same answer to the same failure with the same settings.
//!
//! ```
//! use std::time::Duration;
//!
//! use backstop_core::decision::Action;
//! use backstop_core::examples::ordinary_failure;
//! use backstop_core::failure::Milliseconds;
//! use backstop_core::policy::{FullJitter, Policy, by_name};
//!
//! let policy = FullJitter::default().base(Duration::from_millis(50)).max_attempts(8);
//! policy.validate().unwrap();
//! let answer = policy.answer(&ordinary_failure());
//! assert_eq!(answer.action, Action::Retry { delay: Milliseconds(25) });
//!
//! let same = by_name("full-jitter", &[("base", "50ms"), ("max-attempts", "8")].into()).unwrap();
//! assert_eq!(same.answer(&ordinary_failure()), answer);
//! ```

mod by_name;
mod failed_attempt;
mod standard;

use std::fmt::Debug;
use std::sync::Arc;

use crate::decision::Answer;
use crate::failure::Failure;
use crate::settings::Settings;

pub use backstop_backoff::SettingsError;
pub use by_name::{NAMES, PolicyError, by_name};
pub use standard::{DecorrelatedJitter, EqualJitter, Formula, FullJitter, Linear, Standard};

/// A policy: answers each failure. The same failure always gets the same answer, since a policy reads no clock and draws no random numbers.
pub trait Policy: Debug + Send + Sync {
    /// The policy's name in logs, metrics and decision records: that of the built-in policy, or one of your own.
    fn name(&self) -> &str;

    /// The settings that differ from their defaults, as the component with the same name would receive them.
    fn settings(&self) -> Settings {
        Settings::new()
    }

    /// Whether the settings are valid. Whoever runs a policy checks this once, before the first failure. A policy answers without it too, but a delay may then leave the bounds of its settings.
    fn validate(&self) -> Result<(), SettingsError> {
        Ok(())
    }

    /// The answer to one failure.
    fn answer(&self, failure: &Failure) -> Answer;
}

macro_rules! delegate {
    ($($pointer:ty),+) => {$(
        impl<P: Policy + ?Sized> Policy for $pointer {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn settings(&self) -> Settings {
                (**self).settings()
            }

            fn validate(&self) -> Result<(), SettingsError> {
                (**self).validate()
            }

            fn answer(&self, failure: &Failure) -> Answer {
                (**self).answer(failure)
            }
        }
    )+};
}

delegate!(Arc<P>, Box<P>, &P);
