//! The common part of the built-in policies: the shared settings, the default classification, the limits of attempts and age, and `Retry-After`.

use std::marker::PhantomData;

use crate::{Duration, Error, ErrorClass, Failure, Milliseconds, Policy, Settings, Verdict};

/// The delay before the next attempt, in which the standard policies differ.
pub trait Delay: Send + Sync + 'static {
    /// The delay by the policy's own formula.
    fn delay(settings: &Settings, failure: &Failure) -> Milliseconds;
}

/// A policy with the delay `D` that otherwise follows its [`Settings`].
#[derive(Debug)]
pub struct Standard<D> {
    settings: Settings,
    delay: PhantomData<D>,
}

impl<D: Delay> Policy for Standard<D> {
    fn configure(settings: &[(String, String)]) -> Result<Self, String> {
        let pairs = settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let settings = Settings::parse(pairs).map_err(|refused| refused.to_string())?;
        Ok(Self {
            settings,
            delay: PhantomData,
        })
    }

    /// The class of the list that has the code, else the default.
    fn classify(&self, error: &Error) -> ErrorClass {
        self.settings.classify(&error.code, error.status).into()
    }

    /// The delay of the formula, or the one that the failing service asked for if that is longer, up to 14 days. `cap` limits only the formula. The host then shortens it to what the queue allows.
    fn delay(&self, failure: &Failure, _class: &ErrorClass) -> Duration {
        let by_formula = D::delay(&self.settings, failure);
        let delay = self.settings.delay(by_formula, &failure.into());
        Duration::from_millis(delay.into())
    }

    /// Dead-letters permanent errors, and messages that reach the limit of attempts or age.
    fn judge(&self, failure: &Failure, class: &ErrorClass) -> Verdict {
        self.settings
            .reason_to_dead_letter(&failure.into(), class.known())
            .map_or(Verdict::Retry, Verdict::DeadLetter)
    }
}

/// Exports a [`Standard`](crate::Standard) policy whose delay is a function `fn(&Settings, &Failure) -> Milliseconds`.
#[macro_export]
macro_rules! export_delay {
    ($delay:path) => {
        const _: () = {
            struct Formula;
            impl $crate::Delay for Formula {
                fn delay(
                    settings: &$crate::Settings,
                    failure: &$crate::Failure,
                ) -> $crate::Milliseconds {
                    $delay(settings, failure)
                }
            }
    $crate::export!(@without_outage $crate::Standard<Formula>);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct AlwaysASecond;

    impl Delay for AlwaysASecond {
        fn delay(_: &Settings, _: &Failure) -> Milliseconds {
            1_000
        }
    }

    fn policy(settings: &[(&str, &str)]) -> Standard<AlwaysASecond> {
        let settings: Vec<_> = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Standard::configure(&settings).unwrap()
    }

    fn failure(attempt: u32, age: Milliseconds, retry_after: Option<Milliseconds>) -> Failure {
        let mut failure = crate::testing::failure("HTTP 503");
        failure.error.retry_after = retry_after;
        Failure {
            attempt,
            age,
            ..failure
        }
    }

    #[test]
    fn a_retry_after_lengthens_a_delay_and_never_shortens_it() {
        for (switch, retry_after, expected) in [
            ("on", None, 1_000),
            ("on", Some(500), 1_000),
            ("on", Some(90_000), 90_000),
            ("off", Some(90_000), 1_000),
            ("on", Some(u32::MAX), 1_209_600_000),
        ] {
            let policy = policy(&[("respect-retry-after", switch)]);
            let delay = policy.delay(&failure(1, 0, retry_after), &ErrorClass::Throttled);
            assert_eq!(
                delay,
                Duration::from_millis(expected),
                "{switch} {retry_after:?}"
            );
        }
    }

    #[test]
    fn a_message_is_dead_lettered_if_permanent_or_out_of_attempts_or_too_old() {
        let limited = [("max-attempts", "3"), ("max-age", "1h")];
        for (settings, attempt, age, class, expected) in [
            (&limited[..], 2, 0, ErrorClass::Transient, None),
            (
                &limited,
                3,
                0,
                ErrorClass::Transient,
                Some("max-attempts of 3 reached: HTTP 503"),
            ),
            (
                &limited,
                1,
                3_600_000,
                ErrorClass::Throttled,
                Some("max-age of 1h reached: HTTP 503"),
            ),
            (&limited, 1, 3_599_999, ErrorClass::Throttled, None),
            (
                &limited,
                1,
                0,
                ErrorClass::Permanent,
                Some("permanent: HTTP 503"),
            ),
            (
                &[],
                u32::MAX,
                u32::MAX,
                ErrorClass::Other("odd".to_owned()),
                None,
            ),
        ] {
            let verdict = policy(settings).judge(&failure(attempt, age, None), &class);
            let expected = expected.map_or(Verdict::Retry, |reason| {
                Verdict::DeadLetter(reason.to_owned())
            });
            assert_eq!(verdict, expected);
        }
    }
}
