//! The retries of the AWS SDKs in their standard mode: which errors are retried, how often, and after what delay.

use std::num::NonZeroU32;

use crate::classify::{
    AWS_THROTTLING, IDEMPOTENT_WORK, JAVA_NETWORK, LAMBDA_THROTTLING, NODE_NETWORK, PYTHON_NETWORK,
    RUST_NETWORK, last_part, status_of,
};
use crate::standard::{LONGEST_DELAY, reason_if_last, reason_if_permanent};
use crate::values::{at_most_the_cap, attempts, duration, each_once, in_range, switch};
use crate::{Class, Codes, FailedAttempt, Milliseconds, SettingsError, format_duration, jitter};

/// The settings of 2.0, in the order of the documentation.
const NAMES_2_0: &[&str] = &[
    "base",
    "throttling-base",
    "cap",
    "max-attempts",
    "respect-retry-after",
    "permanent",
    "transient",
    "throttled",
];

/// The settings of 2.1.
const NAMES_2_1: &[&str] = &[
    "service",
    "base",
    "throttling-base",
    "cap",
    "max-attempts",
    "respect-retry-after",
    "permanent",
    "transient",
    "throttled",
];

/// 2.1 waits at most this much longer than its random delay if the service asks for it.
const LONGER: Milliseconds = 5_000;

/// Throttling errors, in addition to those of the default classification.
const THROTTLED: &[&str] = &["TransactionInProgressException"];

/// Transient errors by code. `Timeout` is Backstop's own, for an attempt beyond its time limit. The last two are modelled as retryable, by STS and DynamoDB.
const TRANSIENT: &[&str] = &[
    "RequestTimeout",
    "RequestTimeoutException",
    "Timeout",
    "IDPCommunicationError",
    "ReplicatedWriteConflictException",
];

/// Transient errors by HTTP status.
const TRANSIENT_STATUSES: [u16; 4] = [500, 502, 503, 504];

/// Codes that AWS sends with such a status, for sources that report no status.
const SERVER_ERRORS: &[&str] = &[
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "InternalServerException",
    "ServiceException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
];

/// What the SDKs see as failed connections and time-outs.
const NETWORK: [&[&str]; 4] = [NODE_NETWORK, PYTHON_NETWORK, JAVA_NETWORK, RUST_NETWORK];

/// A generation of the standard mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    V2_0,
    V2_1,
}

/// The standard retry mode of the AWS SDKs, without its token bucket: a policy keeps no state.
///
/// | | 2.0 | 2.1 | 2.1, DynamoDB |
/// |---|---|---|---|
/// | `base`, for transient errors | 1 s | 50 ms | 25 ms |
/// | `throttling-base` | 1 s | 1 s | 1 s |
/// | `cap` | 20 s | 20 s | 20 s |
/// | `max-attempts` | 3 | 3 | 4 |
/// | the service asks for a delay | that delay, at most the cap | at least the random delay, at most 5 s more | same |
///
/// Sources: the Rust SDK, aws-smithy-runtime 1.16.2 (`client/retries/strategy/standard.rs`, `classifiers.rs`), aws-smithy-types 1.9.1 (`retry.rs`) and aws-runtime 1.10.2 (`retries/classifiers.rs`). 2.0 is its default, 2.1 is enabled by `AWS_NEW_RETRIES_2026=true` ([smithy-rs 4670]). The numbers of DynamoDB, for DynamoDB Streams as well: [aws-sdk-go-v2 3416]. For all SDKs: [AWS SDKs and Tools Reference Guide, retry behavior].
///
/// [smithy-rs 4670]: https://github.com/smithy-lang/smithy-rs/pull/4670
/// [aws-sdk-go-v2 3416]: https://github.com/aws/aws-sdk-go-v2/issues/3416
/// [AWS SDKs and Tools Reference Guide, retry behavior]: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
///
/// ```
/// use backstop_backoff::{AwsSdk, Class};
/// let sdk = AwsSdk::parse_2_1([("service", "dynamodb")]).unwrap();
/// assert_eq!(sdk, AwsSdk::V2_1_DYNAMODB);
/// assert_eq!(sdk.classify("ThrottlingException", Some(400)), Class::Throttled);
/// assert_eq!(sdk.classify("ConditionalCheckFailedException", Some(400)), Class::Permanent);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSdk {
    generation: Generation,
    /// The delay that backoff starts from.
    pub base: Milliseconds,
    /// The delay that backoff starts from after a throttling error; `base` if `None`.
    pub throttling_base: Option<Milliseconds>,
    /// The longest delay.
    pub cap: Milliseconds,
    /// A message is dead-lettered after this many failed attempts.
    pub max_attempts: NonZeroU32,
    /// Whether the delay that the failing service asks for counts.
    pub respect_retry_after: bool,
    /// Codes with a class of the operator's; none by default.
    pub codes: Codes,
}

impl AwsSdk {
    /// 2.0, the default of the Rust SDK.
    pub const V2_0: Self = Self {
        generation: Generation::V2_0,
        base: 1_000,
        throttling_base: None,
        cap: 20_000,
        max_attempts: NonZeroU32::MIN.saturating_add(2),
        respect_retry_after: true,
        codes: Codes::NONE,
    };

    /// 2.1, for all services but DynamoDB.
    pub const V2_1: Self = Self {
        generation: Generation::V2_1,
        base: 50,
        throttling_base: Some(1_000),
        cap: 20_000,
        max_attempts: NonZeroU32::MIN.saturating_add(2),
        respect_retry_after: true,
        codes: Codes::NONE,
    };

    /// 2.1 for DynamoDB and DynamoDB Streams.
    pub const V2_1_DYNAMODB: Self = Self {
        generation: Generation::V2_1,
        base: 25,
        throttling_base: Some(1_000),
        cap: 20_000,
        max_attempts: NonZeroU32::MIN.saturating_add(3),
        respect_retry_after: true,
        codes: Codes::NONE,
    };

    /// The name of the policy: `aws-sdk-2.0` or `aws-sdk-2.1`.
    pub const fn name(&self) -> &'static str {
        match self.generation {
            Generation::V2_0 => "aws-sdk-2.0",
            Generation::V2_1 => "aws-sdk-2.1",
        }
    }

    /// 2.0 with these settings. Rejects unknown names, repeated names and invalid values.
    pub fn parse_2_0<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingsError> {
        Self::parse(Self::V2_0, NAMES_2_0, pairs)
    }

    /// 2.1 with these settings. `service` changes the defaults, not the values that are given.
    pub fn parse_2_1<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingsError> {
        Self::parse(Self::V2_1, NAMES_2_1, pairs)
    }

    fn parse<'a>(
        mut defaults: Self,
        names: &'static [&'static str],
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingsError> {
        let (mut base, mut max_attempts) = (None, None);
        let mut sdk = defaults.clone();
        for pair in each_once(pairs) {
            let (name, value) = pair?;
            match names.iter().find(|known| **known == name).copied() {
                Some("service") => defaults = service(value)?,
                Some("base") => base = Some(duration("base", value, 1, "1ms")?),
                Some("throttling-base") => {
                    sdk.throttling_base = Some(duration("throttling-base", value, 1, "1ms")?);
                }
                Some("cap") => sdk.cap = duration("cap", value, 1, "1ms")?,
                Some("max-attempts") => max_attempts = Some(attempts(value)?),
                Some("respect-retry-after") => sdk.respect_retry_after = switch(value)?,
                Some(_) | None => match sdk.codes.read(name, value) {
                    Some(read) => read?,
                    None => {
                        return Err(SettingsError::Unknown {
                            name: name.to_owned(),
                            expected: names,
                        });
                    }
                },
            }
        }
        sdk.base = base.unwrap_or(defaults.base);
        sdk.max_attempts = max_attempts.unwrap_or(defaults.max_attempts);
        sdk.validate()?;
        Ok(sdk)
    }

    /// Whether every value is in its range, for settings that were not parsed.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let throttling_base = self.throttling_base.unwrap_or(self.base);
        in_range("base", self.base, 1, "1ms")?;
        in_range("throttling-base", throttling_base, 1, "1ms")?;
        in_range("cap", self.cap, 1, "1ms")?;
        at_most_the_cap("base", self.base, self.cap)?;
        at_most_the_cap("throttling-base", throttling_base, self.cap)?;
        self.codes.validate()
    }

    /// The settings that differ from the defaults of the generation, as text.
    pub fn changed(&self) -> Vec<(&'static str, String)> {
        let default = match self.generation {
            Generation::V2_0 => Self::V2_0,
            Generation::V2_1 => Self::V2_1,
        };
        let mut changed = Vec::new();
        let mut duration = |name, value: Option<Milliseconds>, default| {
            if let Some(value) = value.filter(|_| value != default) {
                changed.push((name, format_duration(value.into())));
            }
        };
        duration("base", Some(self.base), Some(default.base));
        duration(
            "throttling-base",
            self.throttling_base,
            default.throttling_base,
        );
        duration("cap", Some(self.cap), Some(default.cap));
        if self.max_attempts != default.max_attempts {
            changed.push(("max-attempts", self.max_attempts.to_string()));
        }
        if !self.respect_retry_after {
            changed.push(("respect-retry-after", "off".to_owned()));
        }
        changed.extend(self.codes.changed());
        changed
    }

    /// The class of the list that has the code. Otherwise throttled and transient as the SDKs define them, and Backstop's own codes of work in progress elsewhere or not begun. Every other error is permanent, since the SDKs do not retry it.
    pub fn classify(&self, code: &str, status: Option<u16>) -> Class {
        if let Some(listed) = self.codes.class_of(code) {
            return listed;
        }
        let last = last_part(code);
        let is = |codes: &[&str]| codes.contains(&code) || codes.contains(&last);
        let is_server_error = || match status_of(code, status) {
            Some(status) => TRANSIENT_STATUSES.contains(&status),
            None => is(SERVER_ERRORS),
        };
        if is(AWS_THROTTLING) || is(LAMBDA_THROTTLING) || is(THROTTLED) {
            Class::Throttled
        } else if is(TRANSIENT)
            || is(IDEMPOTENT_WORK)
            || is_server_error()
            || NETWORK.into_iter().any(is)
        {
            Class::Transient
        } else {
            Class::Permanent
        }
    }

    /// Why the message is dead-lettered: its error is not retried, or this was the last attempt. `None` if it is retried.
    pub fn reason_to_dead_letter(
        &self,
        failed: &FailedAttempt<'_>,
        class: Option<Class>,
    ) -> Option<String> {
        reason_if_permanent(class, failed.code)
            .or_else(|| reason_if_last(self.max_attempts.get(), failed))
    }

    /// `U(0, min(cap, base * 2^(n-1)))`, or what the failing service asked for: by 2.0 at most the cap, and by 2.1 at least the random delay and at most 5 s more.
    pub fn delay(&self, failed: &FailedAttempt<'_>, class: Option<Class>) -> Milliseconds {
        let throttling_base = (class == Some(Class::Throttled))
            .then_some(self.throttling_base)
            .flatten();
        let base = throttling_base.unwrap_or(self.base);
        let ceiling = jitter::exponential(base, self.cap, failed.attempt);
        let delay = jitter::full(0, ceiling, failed.random);
        let asked_for = failed.retry_after.filter(|_| self.respect_retry_after);
        let delay = match (asked_for, self.generation) {
            (None, _) => delay,
            (Some(asked_for), Generation::V2_0) => asked_for.min(self.cap),
            (Some(asked_for), Generation::V2_1) => {
                asked_for.clamp(delay, delay.saturating_add(LONGER))
            }
        };
        delay.min(LONGEST_DELAY)
    }
}

/// The defaults of 2.1 for a service.
fn service(name: &str) -> Result<AwsSdk, SettingsError> {
    match name.trim() {
        "dynamodb" => Ok(AwsSdk::V2_1_DYNAMODB),
        "other" => Ok(AwsSdk::V2_1),
        _ => Err(SettingsError::Invalid {
            name: "service",
            value: name.to_owned(),
            expected: "`dynamodb` or `other`",
        }),
    }
}

#[cfg(test)]
#[path = "aws_sdk_tests.rs"]
mod tests;
