//! Profiles: which policy, with which numbers, and which retry budget suit calls to a service. All numbers are in one [`TABLE`].

use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use backstop_backoff::{AwsSdk as AwsSdkRule, Codes, Settings};

use super::{AwsSdk, FullJitter, Policy};
use crate::decision::Answer;
use crate::failure::Failure;

crate::names! {
    /// What a program calls: the policy, its numbers and the retry budget that suit it.
    ///
    /// | profile | policy | delays from | after a throttling error | to | attempts | budget |
    /// |---|---|---|---|---|---|---|
    /// | `dynamodb` | `aws-sdk-2.1` | 25 ms | 1 s | 20 s | 4 | `aws-2.1` |
    /// | `s3`, `sqs`, `lambda`, `aws` | `aws-sdk-2.1` | 50 ms | 1 s | 20 s | 3 | `aws-2.1` |
    /// | `http` | `full-jitter` | 50 ms | 50 ms | 20 s | 3 | `aws-2.1` |
    ///
    /// The numbers of AWS are those of its SDKs' standard retry mode 2.1, see [`AwsSdk`]: one set for DynamoDB and one for all other services. No standard has numbers for HTTP, so its profile has the SDKs' for transient errors.
    ///
    /// ```
    /// use backstop_core::policy::{BudgetName, Policy, Profile};
    ///
    /// let profile: Profile = "dynamodb".parse()?;
    /// assert_eq!(profile, Profile::DynamoDb);
    /// assert_eq!(profile.policy().name(), "aws-sdk-2.1");
    /// assert_eq!(profile.policy().settings().to_string(), "base=25ms, max-attempts=4");
    /// assert_eq!(profile.budget(), BudgetName::Aws2_1);
    /// # Ok::<(), backstop_core::policy::UnknownProfile>(())
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Profile {
        /// DynamoDB and DynamoDB Streams, whose requests take a few milliseconds: the shortest delays, and four attempts.
        DynamoDb = "dynamodb",
        /// S3.
        S3 = "s3",
        /// SQS.
        Sqs = "sqs",
        /// Lambda.
        Lambda = "lambda",
        /// Any other AWS service.
        Aws = "aws",
        /// An HTTP service. What is retried follows from the status, by the default classification (RFC 9110, RFC 6585, RFC 8470). A delay is at least what `Retry-After` asks for.
        Http = "http",
    }
}

crate::names! {
    /// The numbers of a retry budget, by name. `backstop-retry` has the budgets: `Budget::aws_2_0()` and `Budget::aws_2_1()`. The numbers are those of the token bucket in the AWS SDKs (aws-smithy-runtime, `token_bucket.rs`), which holds 500 tokens.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum BudgetName {
        /// `aws-2.0`: a retry costs 5 tokens, and 10 after a transient error.
        Aws2_0 = "aws-2.0",
        /// `aws-2.1`: a retry costs 14 tokens, and 5 after a throttling error.
        Aws2_1 = "aws-2.1",
    }
}

/// The numbers of `http`.
const HTTP: Settings = Settings {
    base: 50,
    cap: 20_000,
    floor: 0,
    max_attempts: NonZeroU32::new(3),
    max_age: None,
    respect_retry_after: true,
    codes: Codes::NONE,
};

impl Profile {
    /// Its policy, with its numbers.
    pub fn policy(self) -> Arc<dyn Policy> {
        match self.sdk() {
            Some(rule) => Arc::new(AwsSdk::new(rule)),
            None => Arc::new(FullJitter::with_settings(HTTP)),
        }
    }

    /// The answer of its policy to one failure.
    pub fn answer(self, failure: &Failure) -> Answer {
        match self.sdk() {
            Some(rule) => AwsSdk::new(rule).answer(failure),
            None => FullJitter::with_settings(HTTP).answer(failure),
        }
    }

    /// The most attempts that its policy makes.
    pub fn max_attempts(self) -> Option<NonZeroU32> {
        let of_sdk = self.sdk().map(|rule| rule.max_attempts);
        of_sdk.or(HTTP.max_attempts)
    }

    /// The numbers of its retry budget.
    pub const fn budget(self) -> BudgetName {
        BudgetName::Aws2_1
    }

    /// Where its numbers come from.
    pub const fn source(self) -> &'static str {
        match self {
            Self::DynamoDb | Self::S3 | Self::Sqs | Self::Lambda | Self::Aws => {
                "AWS SDKs, standard retry mode 2.1: github.com/aws/aws-sdk-go-v2/issues/3416, github.com/smithy-lang/smithy-rs/pull/4670"
            }
            Self::Http => {
                "the numbers of the AWS SDKs for transient errors; RFC 9110, RFC 6585 and RFC 8470 for what is retried"
            }
        }
    }

    /// The numbers of the AWS SDKs, for DynamoDB and for all other services.
    const fn sdk(self) -> Option<AwsSdkRule> {
        match self {
            Self::DynamoDb => Some(AwsSdkRule::V2_1_DYNAMODB),
            Self::S3 | Self::Sqs | Self::Lambda | Self::Aws => Some(AwsSdkRule::V2_1),
            Self::Http => None,
        }
    }
}

/// No profile has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile `{0}`: expected one of {names}", names = Profile::ALL.map(Profile::as_str).join(", "))]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|profile| profile.as_str() == name)
            .ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::by_name;

    #[test]
    fn each_profile_is_found_by_its_name() {
        for profile in Profile::ALL {
            assert_eq!(profile.as_str().parse(), Ok(profile));
        }
        let unknown = "kinesis".parse::<Profile>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown profile `kinesis`: expected one of dynamodb, s3, sqs, lambda, aws, http"
        );
    }

    #[test]
    fn the_numbers_are_those_of_the_documentation() {
        for (profile, policy, settings, attempts) in [
            (
                Profile::DynamoDb,
                "aws-sdk-2.1",
                "base=25ms, max-attempts=4",
                4,
            ),
            (Profile::S3, "aws-sdk-2.1", "", 3),
            (Profile::Sqs, "aws-sdk-2.1", "", 3),
            (Profile::Lambda, "aws-sdk-2.1", "", 3),
            (Profile::Aws, "aws-sdk-2.1", "", 3),
            (
                Profile::Http,
                "full-jitter",
                "base=50ms, cap=20s, max-attempts=3",
                3,
            ),
        ] {
            let built = profile.policy();
            assert!(built.validate().is_ok());
            assert_eq!(built.name(), policy);
            assert_eq!(built.settings().to_string(), settings);
            assert_eq!(profile.max_attempts(), NonZeroU32::new(attempts));
            assert_eq!(profile.budget().to_string(), "aws-2.1");
            assert!(profile.source().contains("AWS SDKs"));
            // A record of its decisions can be replayed.
            let same = by_name(policy, &built.settings()).unwrap();
            assert_eq!(format!("{same:?}"), format!("{built:?}"));
        }
    }
}
