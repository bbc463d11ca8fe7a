//! The built-in policies with the shared settings: one type, with a formula for the delay.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use backstop_backoff::{Class, FailedAttempt, Settings, SettingsError, formula};

use super::{Policy, answer, milliseconds, setters_of_codes};
use crate::decision::Answer;
use crate::failure::Failure;
use crate::settings;

/// The delay after a failed attempt, in which the standard policies differ.
pub trait Formula: Send + Sync + 'static {
    /// The name of the policy with this formula.
    const NAME: &'static str;

    /// The delay, before `Retry-After` is respected.
    fn delay(settings: &Settings, failed: &FailedAttempt<'_>) -> u32;
}

macro_rules! formulas {
    (
        formulas { $($(#[$doc:meta])+ $name:literal $type:ident $function:ident;)+ }
        rules { $($rule:literal $parse:ident;)+ }
    ) => {
        $($(#[$doc])+ pub type $type = Standard<formulas::$type>;)+

        /// The formulas.
        mod formulas {
            use super::{FailedAttempt, Formula, Settings, formula};

            $(
                #[doc = concat!("The formula of `", $name, "`.")]
                #[derive(Debug, Clone, Copy)]
                pub enum $type {}

                impl Formula for $type {
                    const NAME: &'static str = $name;

                    fn delay(settings: &Settings, failed: &FailedAttempt<'_>) -> u32 {
                        formula::$function(settings, failed)
                    }
                }
            )+
        }
    };
}

crate::built_in_policies!(formulas);

/// A built-in policy with the formula `F`: [`FullJitter`], [`EqualJitter`], [`Linear`] or [`DecorrelatedJitter`].
///
/// The methods change one setting each. They never fail: [`validate`](Policy::validate) reports invalid values, in the words that the component with the same name uses. Durations are rounded up to whole milliseconds.
#[must_use = "a policy decides nothing by itself"]
pub struct Standard<F> {
    settings: Settings,
    /// The program set `max-attempts` to 0, which is invalid.
    zero_attempts: bool,
    formula: PhantomData<F>,
}

impl<F: Formula> Standard<F> {
    /// The policy with these settings, as [`Settings::parse`] gives them.
    pub const fn with_settings(settings: Settings) -> Self {
        Self {
            settings,
            zero_attempts: false,
            formula: PhantomData,
        }
    }

    /// The delay that backoff starts from, 1 ms to 14 days; 1 s by default.
    pub fn base(mut self, base: Duration) -> Self {
        self.settings.base = milliseconds(base);
        self
    }

    /// The longest delay by the formula, from the base to 14 days; 12 h by default.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.settings.cap = milliseconds(cap);
        self
    }

    /// The shortest delay, at most the cap; 0 by default.
    pub fn floor(mut self, floor: Duration) -> Self {
        self.settings.floor = milliseconds(floor);
        self
    }

    /// Gives up after this many failed attempts, at least 1; never by default.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = NonZeroU32::new(attempts).or(Some(NonZeroU32::MIN));
        self.zero_attempts = attempts == 0;
        self
    }

    /// Gives up at a failure of this age or older, 1 ms to 14 days; never by default.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.settings.max_age = Some(milliseconds(age));
        self
    }

    /// Whether a delay is at least what the failing service asked for, even beyond the cap, up to 14 days; yes by default.
    pub fn respect_retry_after(mut self, respect: bool) -> Self {
        self.settings.respect_retry_after = respect;
        self
    }

    setters_of_codes!(settings);
}

impl<F: Formula> Policy for Standard<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn settings(&self) -> settings::Settings {
        self.settings.changed().into_iter().collect()
    }

    fn validate(&self) -> Result<(), SettingsError> {
        if self.zero_attempts {
            return Err(SettingsError::max_attempts("0"));
        }
        self.settings.validate()
    }

    fn answer(&self, failure: &Failure) -> Answer {
        let failed = FailedAttempt::from(failure);
        let class = self.settings.classify(failed.code, failed.status);
        let reason = self.settings.reason_to_dead_letter(&failed, Some(class));
        answer(class, reason, || {
            let by_formula = F::delay(&self.settings, &failed);
            self.settings.delay(by_formula, &failed)
        })
    }
}

impl<F: Formula> Default for Standard<F> {
    fn default() -> Self {
        Self::with_settings(Settings::default())
    }
}

impl<F> Clone for Standard<F> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            ..*self
        }
    }
}

impl<F: Formula> fmt::Debug for Standard<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", F::NAME, Policy::settings(self))
    }
}

#[cfg(test)]
#[path = "standard_tests.rs"]
mod tests;
