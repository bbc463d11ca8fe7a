//! `aws-sdk-2.0` and `aws-sdk-2.1`: the retries of the AWS SDKs.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use backstop_backoff::{Class, FailedAttempt, SettingsError};

use super::{Policy, answer, milliseconds, setters_of_codes};
use crate::decision::Answer;
use crate::failure::Failure;
use crate::settings::Settings;

/// `aws-sdk-2.0` and `aws-sdk-2.1`: the standard retry mode of the AWS SDKs, with its numbers, errors and delays. The SDK's token bucket is not part of it, since a policy keeps no state.
///
/// Errors that the SDK does not retry are permanent. [`backstop_backoff::AwsSdk`] has the numbers and their sources. The methods change one setting each and never fail: [`validate`](Policy::validate) reports invalid values.
///
/// ```
/// use backstop_core::policy::{AwsSdk, Policy};
///
/// let policy = AwsSdk::v2_1_dynamodb().max_attempts(6);
/// assert_eq!(policy.name(), "aws-sdk-2.1");
/// assert_eq!(policy.settings().to_string(), "base=25ms, max-attempts=6");
/// ```
#[derive(Clone)]
#[must_use = "a policy decides nothing by itself"]
pub struct AwsSdk {
    rule: backstop_backoff::AwsSdk,
    /// The program set `max-attempts` to 0, which is invalid.
    zero_attempts: bool,
}

impl AwsSdk {
    /// 2.0, the default of the Rust SDK: 3 attempts, from 1 s to 20 s.
    pub const fn v2_0() -> Self {
        Self::new(backstop_backoff::AwsSdk::V2_0)
    }

    /// 2.1, which the SDKs call `AWS_NEW_RETRIES_2026`: 3 attempts, from 50 ms, or 1 s for throttling errors, to 20 s.
    pub const fn v2_1() -> Self {
        Self::new(backstop_backoff::AwsSdk::V2_1)
    }

    /// 2.1 for DynamoDB and DynamoDB Streams: 4 attempts, from 25 ms, or 1 s for throttling errors, to 20 s.
    pub const fn v2_1_dynamodb() -> Self {
        Self::new(backstop_backoff::AwsSdk::V2_1_DYNAMODB)
    }

    pub(super) const fn new(rule: backstop_backoff::AwsSdk) -> Self {
        Self {
            rule,
            zero_attempts: false,
        }
    }

    /// The delay that backoff starts from, 1 ms to 14 days.
    pub fn base(mut self, base: Duration) -> Self {
        self.rule.base = milliseconds(base);
        self
    }

    /// The delay that backoff starts from after a throttling error, 1 ms to 14 days.
    pub fn throttling_base(mut self, base: Duration) -> Self {
        self.rule.throttling_base = Some(milliseconds(base));
        self
    }

    /// The longest delay, from both bases to 14 days.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.rule.cap = milliseconds(cap);
        self
    }

    /// Gives up after this many failed attempts, at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.rule.max_attempts = NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN);
        self.zero_attempts = attempts == 0;
        self
    }

    /// Whether the delay that the failing service asks for counts; yes by default.
    pub fn respect_retry_after(mut self, respect: bool) -> Self {
        self.rule.respect_retry_after = respect;
        self
    }

    setters_of_codes!(rule);
}

impl Policy for AwsSdk {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn settings(&self) -> Settings {
        self.rule.changed().into_iter().collect()
    }

    fn validate(&self) -> Result<(), SettingsError> {
        if self.zero_attempts {
            return Err(SettingsError::max_attempts("0"));
        }
        self.rule.validate()
    }

    fn answer(&self, failure: &Failure) -> Answer {
        let failed = FailedAttempt::from(failure);
        let class = self.rule.classify(failed.code, failed.status);
        let reason = self.rule.reason_to_dead_letter(&failed, Some(class));
        answer(class, reason, || self.rule.delay(&failed, Some(class)))
    }
}

impl fmt::Debug for AwsSdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Action, ErrorClass};
    use crate::examples::ordinary_failure;
    use crate::failure::{Error, Milliseconds};

    #[test]
    fn a_throttling_error_has_a_base_of_its_own() {
        let mut failure = ordinary_failure();
        let action = |failure: &Failure| AwsSdk::v2_1().answer(failure).action;
        let retry = |delay| Action::Retry {
            delay: Milliseconds(delay),
        };
        assert_eq!(action(&failure), retry(25));
        failure.error = Error::new("SlowDown", "");
        assert_eq!(action(&failure), retry(500));
    }

    #[test]
    fn an_error_that_the_sdk_does_not_retry_is_permanent() {
        let mut failure = ordinary_failure();
        failure.error = Error::new("HTTP 429", "");
        let answer = AwsSdk::v2_0().answer(&failure);
        assert_eq!(answer.class, ErrorClass::Permanent);
        let reason = "permanent: HTTP 429".to_owned();
        assert_eq!(answer.action, Action::DeadLetter { reason });
    }

    #[test]
    fn an_invalid_value_is_rejected() {
        for (policy, expected) in [
            (
                AwsSdk::v2_0().max_attempts(0),
                "setting `max-attempts` is `0`: expected a whole number from 1",
            ),
            (
                AwsSdk::v2_1().base(Duration::from_secs(21)),
                "setting `base` is `21s`: expected at most the cap of 20s",
            ),
            (
                AwsSdk::v2_1().throttling_base(Duration::ZERO),
                "setting `throttling-base` is `0s`: expected 1ms to 14d",
            ),
        ] {
            assert_eq!(policy.validate().unwrap_err().to_string(), expected);
            assert!(policy.answer(&ordinary_failure()).validate().is_ok());
        }
        for policy in [AwsSdk::v2_0(), AwsSdk::v2_1(), AwsSdk::v2_1_dynamodb()] {
            assert!(policy.validate().is_ok());
        }
    }
}
