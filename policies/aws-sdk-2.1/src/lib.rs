//! The retries of the AWS SDKs, version 2.1, which they call `AWS_NEW_RETRIES_2026`: like 2.0, but from 50 ms after transient errors, and four attempts from 25 ms for DynamoDB.

use backstop_policy::{AwsSdk, Duration, Error, ErrorClass, Failure, Policy, Verdict};

/// The rule of [`AwsSdk`], with the settings of 2.1.
#[derive(Debug)]
pub struct AwsSdk21(AwsSdk);

impl Policy for AwsSdk21 {
    fn configure(settings: &[(String, String)]) -> Result<Self, String> {
        let settings = settings.iter();
        let pairs = settings.map(|(name, value)| (name.as_str(), value.as_str()));
        let rule = AwsSdk::parse_2_1(pairs);
        rule.map(Self).map_err(|refused| refused.to_string())
    }

    fn classify(&self, error: &Error) -> ErrorClass {
        self.0.classify(&error.code, error.status).into()
    }

    fn judge(&self, failure: &Failure, class: &ErrorClass) -> Verdict {
        self.0
            .reason_to_dead_letter(&failure.into(), class.known())
            .map_or(Verdict::Retry, Verdict::DeadLetter)
    }

    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration {
        let delay = self.0.delay(&failure.into(), class.known());
        Duration::from_millis(delay.into())
    }
}

const _: () = {
    backstop_policy::export!(@without_outage AwsSdk21);
};

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::testing::failure;

    fn configured(settings: &[(&str, &str)]) -> AwsSdk21 {
        let settings = settings.iter();
        let pairs = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        AwsSdk21::configure(&pairs.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_throttling_error_waits_longer_than_a_transient_one() {
        for (settings, code, expected) in [
            (&[][..], "HTTP 503", [Some(25), Some(50), None, None]),
            (&[], "SlowDown", [Some(500), Some(1_000), None, None]),
            (
                &[("service", "dynamodb")],
                "HTTP 503",
                [Some(13), Some(25), Some(50), None],
            ),
            (
                &[("service", "dynamodb")],
                "ThrottlingException",
                [Some(500), Some(1_000), Some(2_000), None],
            ),
        ] {
            let policy = configured(settings);
            for (attempt, expected) in (1..).zip(expected) {
                let failed = Failure {
                    attempt,
                    random: 0.5,
                    ..failure(code)
                };
                let class = policy.classify(&failed.error);
                let is_retry = policy.judge(&failed, &class) == Verdict::Retry;
                let delay = is_retry.then(|| policy.delay(&failed, &class));
                let expected = expected.map(Duration::from_millis);
                assert_eq!(delay, expected, "{settings:?} {code} {attempt}");
            }
        }
    }

    #[test]
    fn a_class_of_another_policy_has_the_base_of_transient_errors() {
        let policy = configured(&[]);
        let failed = Failure {
            random: 0.5,
            ..failure("OutOfStock")
        };
        let class = ErrorClass::Other("stock".to_owned());
        assert_eq!(policy.judge(&failed, &class), Verdict::Retry);
        assert_eq!(policy.delay(&failed, &class), Duration::from_millis(25));
    }
}
