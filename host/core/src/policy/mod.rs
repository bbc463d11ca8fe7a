//! Policies in Rust, which need no WebAssembly: the trait, and the built-in policies as types and by name, and the profiles of services.
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

mod aws_sdk;
mod by_name;
mod digest;
mod failed_attempt;
mod list;
mod part_name;
mod profile;
pub mod standard;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use backstop_backoff::Class;

use crate::decision::{Action, Answer, LONGEST_DELAY, REASON_BYTES};
use crate::failure::{Failure, Milliseconds};
use crate::settings::Settings;
use crate::text::cut;

pub use aws_sdk::AwsSdk;
pub use backstop_backoff::SettingsError;
pub use by_name::{NAMES, PolicyError, by_name};
pub use digest::{NoDigest, PolicyDigest};
pub use part_name::{LogLine, PartName};
pub use profile::{BudgetName, Profile, UnknownProfile};
pub use standard::*;

/// The setters of `permanent`, `transient` and `throttled`, for a policy whose `codes` are in this field.
macro_rules! setters_of_codes {
    ($field:ident) => {
        /// Errors with these codes are permanent, whatever their status and the classification otherwise say. In a code, `*` stands for any text. A code that is written out precedes patterns, and a pattern with more characters one with fewer.
        pub fn permanent(mut self, codes: impl IntoIterator<Item = impl Into<String>>) -> Self {
            self.$field.codes.extend(Class::Permanent, codes);
            self
        }

        /// Errors with these codes are transient, see [`permanent`](Self::permanent).
        pub fn transient(mut self, codes: impl IntoIterator<Item = impl Into<String>>) -> Self {
            self.$field.codes.extend(Class::Transient, codes);
            self
        }

        /// Errors with these codes are throttled, see [`permanent`](Self::permanent).
        pub fn throttled(mut self, codes: impl IntoIterator<Item = impl Into<String>>) -> Self {
            self.$field.codes.extend(Class::Throttled, codes);
            self
        }
    };
}
use setters_of_codes;

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

/// The answer of a built-in policy, as the host takes it from a component: a long reason is cut. The delay is valid even if the settings are not.
fn answer(class: Class, reason: Option<String>, delay: impl FnOnce() -> u32) -> Answer {
    let action = match reason {
        Some(mut reason) => {
            cut(&mut reason, REASON_BYTES);
            Action::DeadLetter { reason }
        }
        None => Action::Retry {
            delay: Milliseconds(delay()).min(LONGEST_DELAY),
        },
    };
    Answer::new(class.into(), action)
}

/// Whole milliseconds, rounded up; saturates above what any setting allows.
fn milliseconds(duration: Duration) -> u32 {
    Milliseconds::from_duration(duration).0
}
