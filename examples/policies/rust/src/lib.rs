//! A policy for messages that charge a card: it classifies the payment API's error codes, delays with full jitter, and gives up after a number of attempts.

use backstop_policy::{
    Duration, Error, ErrorClass, Failure, Policy, Verdict, default_class, default_verdict, jitter,
};

/// The ceiling of the first delay, and of all delays, in milliseconds.
const BASE: u32 = 500;
const CAP: u32 = 3_600_000;

const DAY: Duration = Duration::from_secs(86_400);

/// The policy for failures of the payment service.
pub struct Payments {
    attempts: u32,
}

impl Policy for Payments {
    fn configure(settings: &[(String, String)]) -> Result<Self, String> {
        let mut attempts = 8;
        for (name, value) in settings {
            match (name.as_str(), value.parse()) {
                ("attempts", Ok(number @ 1..)) if !value.starts_with('+') => attempts = number,
                ("attempts", _) => {
                    return Err(format!(
                        "setting `attempts` is `{value}`: expected a whole number from 1"
                    ));
                }
                _ => return Err(format!("unknown setting `{name}`: expected `attempts`")),
            }
        }
        Ok(Self { attempts })
    }

    /// The API's own codes; the host's default classification for everything else.
    fn classify(&self, error: &Error) -> ErrorClass {
        match error.code.as_str() {
            "card_declined" | "expired_card" | "invalid_number" => ErrorClass::Permanent,
            "rate_limit" => ErrorClass::Throttled,
            "lock_timeout" => ErrorClass::Transient,
            "fraud_review" => ErrorClass::Other("review".to_owned()),
            _ => default_class(error),
        }
    }

    /// A review needs a person: an hour. Everything else is delayed with full jitter, and at least as long as the API asks, up to a day.
    fn delay(&self, failure: &Failure, class: &ErrorClass) -> Duration {
        let ceiling = jitter::exponential(BASE, CAP, failure.attempt);
        let delay = match class {
            ErrorClass::Other(_) => CAP,
            _ => jitter::full(0, ceiling, failure.random),
        };
        let asked_for = failure.error.asked_for().unwrap_or_default();
        Duration::from_millis(delay.into()).max(asked_for.min(DAY))
    }

    fn judge(&self, failure: &Failure, class: &ErrorClass) -> Verdict {
        match default_verdict(failure, class) {
            Verdict::Retry if failure.attempt >= self.attempts => {
                Verdict::DeadLetter(format!("not charged after {} attempts", failure.attempt))
            }
            verdict => verdict,
        }
    }
}

backstop_policy::export!(Payments);

/// Tests without WebAssembly: `cargo test`. The tests of the built policy are in scenarios.toml: `backstop policy test`.
#[cfg(test)]
mod tests {
    use super::*;
    use backstop_policy::testing::failure;

    #[test]
    fn a_throttled_call_is_delayed_as_long_as_the_api_asks() {
        let mut busy = failure("rate_limit");
        busy.error.retry_after = Some(30_000);
        let payments = Payments { attempts: 8 };
        let class = payments.classify(&busy.error);
        assert_eq!(class, ErrorClass::Throttled);
        assert_eq!(payments.delay(&busy, &class), Duration::from_secs(30));
    }
}
