//! The retries of the AWS SDKs, version 2.0, the default of the Rust SDK: three attempts, full jitter from 1 s to 20 s, and nothing but throttling and transient errors.

use backstop_policy::{AwsSdk, Duration, Error, ErrorClass, Failure, Policy, Verdict};

/// The rule of [`AwsSdk`], with the settings of 2.0.
#[derive(Debug)]
pub struct AwsSdk20(AwsSdk);

impl Policy for AwsSdk20 {
    fn configure(settings: &[(String, String)]) -> Result<Self, String> {
        let settings = settings.iter();
        let pairs = settings.map(|(name, value)| (name.as_str(), value.as_str()));
        let rule = AwsSdk::parse_2_0(pairs);
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
    backstop_policy::export!(@without_outage AwsSdk20);
};

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::testing::failure;

    fn configured(settings: &[(&str, &str)]) -> Result<AwsSdk20, String> {
        let settings = settings.iter();
        let pairs = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        AwsSdk20::configure(&pairs.collect::<Vec<_>>())
    }

    #[test]
    fn three_attempts_from_a_second_for_every_error_that_is_retried() {
        let policy = configured(&[]).unwrap();
        for code in ["HTTP 503", "ThrottlingException"] {
            for (attempt, expected) in [(1, Some(500)), (2, Some(1_000)), (3, None)] {
                let failed = Failure {
                    attempt,
                    random: 0.5,
                    ..failure(code)
                };
                let class = policy.classify(&failed.error);
                let is_retry = policy.judge(&failed, &class) == Verdict::Retry;
                let delay = is_retry.then(|| policy.delay(&failed, &class));
                assert_eq!(delay, expected.map(Duration::from_millis), "{code}");
            }
        }
    }

    #[test]
    fn what_the_sdk_does_not_retry_is_dead_lettered_at_once() {
        let policy = configured(&[]).unwrap();
        let failed = failure("OutOfStock");
        let class = policy.classify(&failed.error);
        assert_eq!(class, ErrorClass::Permanent);
        let expected = Verdict::DeadLetter("permanent: OutOfStock".to_owned());
        assert_eq!(policy.judge(&failed, &class), expected);
    }

    #[test]
    fn it_has_no_numbers_for_one_service() {
        let refused = configured(&[("service", "dynamodb")]).unwrap_err();
        assert!(
            refused.starts_with("unknown setting `service`"),
            "{refused}"
        );
    }
}
